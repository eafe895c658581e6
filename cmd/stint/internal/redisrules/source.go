// Package redisrules stores versions of the rules in Redis or Valkey, for any
// number of nodes.
//
// One script publishes a version by compare-and-set, so that of two concurrent
// publishers one gets a conflict. Pub/Sub announces the version; a poll finds
// missed announcements within [ruleset.PollEvery]. The newest 100 versions are
// kept whole, and the newest 1,000 without their files. All keys begin with
// PREFIX:rules: and share one slot of a Cluster.
package redisrules

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/rueidis"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/ruleset"
	"github.com/stintdev/stint/redisstore"
)

// Bounds on the versions that are kept whole and kept at all.
const (
	keptWhole  = 100
	keptListed = 1000
)

//go:embed publish.lua
var publishScript string

//go:embed truncate.lua
var truncateScript string

//go:embed announce.lua
var announceScript string

//go:embed switch.lua
var switchScript string

//go:embed emergency.lua
var emergencyScript string

// Source is a [ruleset.Source], a [ruleset.Fleet] and an [emergency.Source] in Redis.
// Make it by [New]. It is safe for concurrent use.
type Source struct {
	options redisstore.Options
	log     *slog.Logger
	name    string // prefix of the keys and name of the channel

	publish, announce, truncate *rueidis.Lua
	emergency, switching        *rueidis.Lua

	mu     sync.Mutex
	client rueidis.Client // guarded by mu; nil before the first connection
	login  login          // guarded by mu; the credentials of client
	closed bool           // guarded by mu
}

// New returns a source on the servers of the options. It ignores the options
// that concern only a store. It does not connect yet.
func New(o redisstore.Options) (*Source, error) {
	prefix := o.Prefix
	if prefix == "" {
		prefix = "stint"
	}
	if stint.ValidateKey(prefix) != nil || len(prefix) > 64 || strings.ContainsAny(prefix, "{} ") {
		return nil, errors.New("key-prefix: must be 1 to 64 bytes of text without braces, spaces and control characters")
	}
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Source{
		options: o, log: log, name: prefix + ":rules",
		publish: rueidis.NewLuaScript(publishScript), announce: rueidis.NewLuaScript(announceScript),
		truncate:  rueidis.NewLuaScript(truncateScript),
		emergency: rueidis.NewLuaScript(emergencyScript), switching: rueidis.NewLuaScript(switchScript),
	}, nil
}

// String describes where the versions are stored, without passwords.
func (s *Source) String() string { return s.options.String() + " " + s.name }

// Close closes the connections.
func (s *Source) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.client != nil {
		s.client.Close()
	}
}

func (s *Source) key(part string) string { return s.name + ":{rules}:" + part }

// newestID is the start of a search for the newest version. Stint writes no
// entry above it.
var newestID = strconv.FormatUint(ruleset.MaxNumber, 10)

// History lists the newest versions. An entry of another program that is not a
// version appears as a damaged version, so that a version can be published on
// top of it.
func (s *Source) History(ctx context.Context, n int) ([]ruleset.Version, error) {
	c, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	entries, err := c.Do(ctx, c.B().Xrevrange().Key(s.key("versions")).End(newestID).Start("-").Count(int64(n)).Build()).AsXRange()
	if err != nil && !rueidis.IsRedisNil(err) {
		return nil, s.explain(err)
	}
	versions := make([]ruleset.Version, len(entries))
	for i, e := range entries {
		number, _, _ := strings.Cut(e.ID, "-")
		n, _ := strconv.ParseUint(number, 10, 64) // Redis guarantees that ids are numbers
		if versions[i], err = ruleset.DecodeNumbered(n, []byte(e.FieldValues["version"])); err != nil {
			versions[i] = ruleset.Version{Number: n, Comment: "cannot be read: " + err.Error()}
		}
	}
	return versions, nil
}

// Get returns a version with its files.
func (s *Source) Get(ctx context.Context, number uint64) (ruleset.Version, error) {
	c, err := s.connect(ctx)
	if err != nil {
		return ruleset.Version{}, err
	}
	text, err := c.Do(ctx, c.B().Hget().Key(s.key("files")).Field(strconv.FormatUint(number, 10)).Build()).ToString()
	switch {
	case rueidis.IsRedisNil(err):
		return ruleset.Version{}, ruleset.ErrNone
	case err != nil:
		return ruleset.Version{}, s.explain(err)
	}
	return ruleset.DecodeNumbered(number, []byte(text))
}

func decode(text string) (ruleset.Version, error) { return ruleset.Decode([]byte(text)) }

// Publish adds a version. If its number belonged to a deleted version, it gets
// the next number, because nodes may still run the deleted one.
func (s *Source) Publish(ctx context.Context, after uint64, v ruleset.Version) (ruleset.Version, error) {
	published, err := s.publishAs(ctx, after, v)
	if used, taken := errors.AsType[numberTaken](err); taken {
		if used >= ruleset.MaxNumber {
			return v, s.explain(ruleset.ErrNumbers)
		}
		v.Number = uint64(used) + 1
		return s.publishAs(ctx, after, v)
	}
	return published, err
}

// numberTaken is the error for a number that was given out before. Its value is
// the highest number ever given out.
type numberTaken uint64

func (n numberTaken) Error() string {
	return fmt.Sprintf("version %d of the rules was published once and deleted (try again)", uint64(n))
}

func (s *Source) publishAs(ctx context.Context, after uint64, v ruleset.Version) (ruleset.Version, error) {
	whole, err1 := ruleset.Encode(v)
	listed, err2 := ruleset.EncodeListed(v)
	c, err3 := s.connect(ctx)
	if err := errors.Join(err1, err2, err3); err != nil {
		return v, err
	}
	newest, err := s.publish.Exec(ctx, c, []string{s.key("versions"), s.key("files")}, []string{
		strconv.FormatUint(after, 10), strconv.FormatUint(v.Number, 10), string(listed), string(whole),
		strconv.Itoa(keptWhole), strconv.Itoa(keptListed), s.name, newestID,
	}).ToString()
	switch {
	case err != nil:
		return v, s.explain(err)
	case newest == string(listed):
		return v, nil
	case newest == "":
		return v, &ruleset.ConflictError{}
	case strings.HasPrefix(newest, "above "):
		n, err := strconv.ParseUint(strings.TrimPrefix(newest, "above "), 10, 64)
		return v, errors.Join(err, numberTaken(n))
	}
	other, err := decode(newest)
	return v, errors.Join(err, &ruleset.ConflictError{Newest: other})
}

// login holds the credentials of connections to the servers.
type login struct{ username, password, sentinelUsername, sentinelPassword string }

// Truncate forgets the versions numbered higher than above and the record of
// their numbers. It also removes the nodes, which announce themselves again, and
// replaces the secret.
func (s *Source) Truncate(ctx context.Context, above uint64) error {
	c, err := s.connect(ctx)
	if err != nil {
		return err
	}
	keys := []string{s.key("versions"), s.key("files"), s.key("nodes"), s.key("seen"), s.key("secret")}
	args := []string{strconv.FormatUint(above, 10), rand.Text()}
	if err := s.truncate.Exec(ctx, c, keys, args).Error(); err != nil && !rueidis.IsRedisNil(err) {
		return s.explain(err)
	}
	return nil
}

// connect returns the client. It creates the client on first use and retries
// until a server has been reached once. It creates a new client when the
// password has changed, because the old client would use the old password for
// new connections.
func (s *Source) connect(ctx context.Context) (rueidis.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, rueidis.ErrClosing
	}
	o, err := s.options.ClientOption(ctx)
	if err != nil {
		return nil, s.explain(err)
	}
	now := login{o.Username, o.Password, o.Sentinel.Username, o.Sentinel.Password}
	if s.client != nil && s.login == now {
		return s.client, nil
	}
	c, err := rueidis.NewClient(withDefaults(o))
	switch {
	case err != nil && s.client != nil:
		return s.client, nil // the open connections may still be valid although the new password fails
	case err != nil:
		return nil, s.explain(err)
	}
	if s.client != nil {
		go s.client.Close() // Close waits for concurrent calls
	}
	s.client, s.login = c, now
	return c, nil
}

// explain adds the source to an error. Server messages contain no passwords. A
// script that fails returns the error of the command that failed in it.
func (s *Source) explain(err error) error {
	if said, ok := rueidis.IsRedisErr(err); ok && strings.Contains(said.Error(), "WRONGTYPE") {
		err = fmt.Errorf("a key %w, because something else than Stint has written it (run stint rules repair --source URL FILE): %w", ruleset.ErrDamaged, err)
	}
	return fmt.Errorf("rules in %s: %w", s.options.String(), err)
}
