package identity

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint/httplimit/jwtverify"
	"github.com/stintdev/stint/internal/secret"
)

// Keys are the keys that verify tokens, from a file or a URL. Make them with [OpenKeys].
// They are safe for concurrent use.
//
// Issuers rotate keys: they publish a new key, and soon sign with it. So a token with an
// unknown key id makes Keys fetch the URL again, and the token waits for the result.
// Anybody can send unknown ids, so such fetches are bounded: one at a time, and none
// within unknownPause of the last one. A key that the issuer removes is out of force
// after refreshTime at the latest. While the URL fails, the last keys stay in force
// without an end: otherwise an outage of the issuer would be one of its clients.
type Keys struct {
	Files *secret.Files // the file; nil for a URL

	url     string // "" for a file
	client  *http.Client
	log     *slog.Logger
	current atomic.Pointer[keySet] // nil until the first successful reading
	failed  atomic.Bool            // the last fetch failed
	fetched atomic.Int64           // the Unix time of the last fetch that succeeded; 0: none has
	text    string                 // the last document; of the fetching goroutine

	mu       sync.Mutex
	fetching chan struct{} // guarded by mu; closed at the end of the fetch in progress, nil without one
	last     time.Time     // guarded by mu; the end of the last fetch
}

// The bounds on fetches.
const (
	fetchTime    = 5 * time.Second
	maxDocument  = 1 << 20
	maxRedirects = 3
	refreshTime  = 5 * time.Minute
	retryTime    = 15 * time.Second // after a failed fetch
	unknownPause = 10 * time.Second
	unknownWait  = 2 * time.Second // the longest wait of one token
)

// OpenKeys reads keys from a file, or from a URL of a JSON Web Key Set. A URL that fails
// is logged, and asked again by [Keys.Run]: an outage of the issuer must not keep the
// server from starting. trust says how the connection verifies the URL's server; nil
// trusts the authorities of the system. Errors begin with the name of the flag.
func OpenKeys(ctx context.Context, source string, trust *tls.Config, log *slog.Logger) (*Keys, error) {
	k := &Keys{log: log}
	if !strings.Contains(source, "://") {
		files, err := secret.Open("jwt-keys", []string{source}, k.useFile)
		k.Files = files
		return k, err
	}
	u, err := url.Parse(source)
	if err != nil {
		return nil, errors.New("jwt-keys: is not a URL (write it as https://host/path)")
	}
	if err := checkURL(u); err != nil {
		return nil, fmt.Errorf("jwt-keys: %w", err)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // nothing replaces it
	transport.TLSClientConfig = trust
	transport.MaxResponseHeaderBytes = 64 << 10
	k.url, k.client = source, &http.Client{Transport: transport, CheckRedirect: checkRedirect}
	<-k.fetch(ctx)
	return k, nil
}

// checkURL refuses URLs over which anybody on the way could replace the keys.
func checkURL(u *url.URL) error {
	local, err := netip.ParseAddr(u.Hostname())
	loopback := u.Hostname() == "localhost" || err == nil && local.IsLoopback()
	switch {
	case u.Host == "":
		return errors.New("the URL names no server (write it as https://host/path)")
	case u.User != nil:
		return errors.New("the URL has a password (keys for verifying are public; leave it out)")
	case u.Scheme != "https" && (u.Scheme != "http" || !loopback):
		return fmt.Errorf("%s://%s is not encrypted, so others could replace the keys (use https, or http on this machine)", u.Scheme, u.Host)
	}
	return nil
}

func checkRedirect(r *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return errors.New("too many redirects")
	}
	return checkURL(r.URL)
}

// useFile puts the content of the file in force.
func (k *Keys) useFile(contents [][]byte) error {
	set, err := parseKeys(contents[0], true)
	if err == nil {
		k.use(set)
	}
	return err
}

func (k *Keys) use(set *keySet) {
	k.current.Store(set)
	k.log.Info("keys of tokens in force", "keys", len(set.byID))
	if set.skip != nil {
		k.log.Warn("keys of tokens: some verify nothing" + set.skipped())
	}
}

// Key returns the key for the id of a token, as [jwtverify.Options.KeyFunc] is to.
func (k *Keys) Key(ctx context.Context, id string) (any, error) {
	if key, ok := k.find(id); ok {
		return key, nil
	}
	if k.url == "" {
		return nil, jwtverify.ErrUnknownKey
	}
	if fetching := k.fetchUnknown(); fetching != nil {
		enough := time.NewTimer(unknownWait)
		defer enough.Stop()
		select {
		case <-fetching:
		case <-enough.C:
		case <-ctx.Done():
		}
		if key, ok := k.find(id); ok {
			return key, nil
		}
	}
	if k.current.Load() == nil || k.failed.Load() {
		return nil, errors.New("the last fetch of the keys failed, and no key that was read before has the id of the token")
	}
	return nil, jwtverify.ErrUnknownKey
}

func (k *Keys) find(id string) (any, bool) {
	set := k.current.Load()
	if set == nil {
		return nil, false
	}
	return set.find(id)
}

// fetchUnknown fetches the keys unless they were fetched a moment ago. It returns the end
// of the fetch, or nil without one.
func (k *Keys) fetchUnknown() <-chan struct{} {
	k.mu.Lock()
	fetching, recent := k.fetching, time.Since(k.last) < unknownPause
	k.mu.Unlock()
	switch {
	case fetching != nil:
		return fetching
	case recent:
		return nil
	}
	return k.fetch(context.Background())
}

// fetch begins to fetch the keys, unless a fetch is in progress, and returns its end. A
// fetch outlives the token that began it, because others wait for it too.
func (k *Keys) fetch(ctx context.Context) <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fetching != nil {
		return k.fetching
	}
	end := make(chan struct{})
	k.fetching = end
	go func() {
		ctx, cancel := context.WithTimeout(ctx, fetchTime)
		defer cancel()
		k.settle(k.read(ctx))
		k.mu.Lock()
		k.fetching, k.last = nil, time.Now()
		k.mu.Unlock()
		close(end)
	}()
	return end
}

// settle records the result of a fetch, and logs it when it differs from that of the last
// one.
func (k *Keys) settle(err error) {
	was := k.failed.Swap(err != nil)
	if err == nil {
		k.fetched.Store(time.Now().Unix())
	}
	switch {
	case err != nil && !was && k.current.Load() == nil:
		k.log.Warn("keys of tokens cannot be fetched: no token can be verified until they are", "url", k.url, "error", err.Error())
	case err != nil && !was:
		k.log.Warn("keys of tokens cannot be fetched: the last ones stay in force", "url", k.url, "error", err.Error())
	case err == nil && was:
		k.log.Info("keys of tokens can be fetched again", "url", k.url)
	}
}

// read fetches the keys and puts them in force. An error never repeats the answer.
func (k *Keys) read(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, k.url, http.NoBody)
	if err != nil {
		return err
	}
	request.Header.Set("Accept", "application/jwk-set+json, application/json")
	response, err := k.client.Do(request)
	if err != nil {
		return withoutURL(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the server answers %d", response.StatusCode)
	}
	data, err := io.ReadAll(io.LimitReader(response.Body, maxDocument+1))
	switch {
	case err != nil:
		return withoutURL(err)
	case len(data) > maxDocument:
		return fmt.Errorf("the answer is larger than %d bytes", maxDocument)
	case string(data) == k.text:
		return nil
	}
	set, err := parseKeys(data, false)
	if err != nil {
		return fmt.Errorf("the answer %w", err)
	}
	k.text = string(data)
	k.use(set)
	return nil
}

// withoutURL returns the cause of an error of net/http, which names the URL once more.
func withoutURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	if t, ok := errors.AsType[net.Error](err); ok && t.Timeout() {
		return fmt.Errorf("no answer within %v", fetchTime)
	}
	return err
}

// Run fetches the keys of a URL again and again until ctx ends.
func (k *Keys) Run(ctx context.Context) {
	for k.url != "" {
		pause := refreshTime
		if k.failed.Load() {
			pause = retryTime
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
			<-k.fetch(ctx)
		}
	}
}

// FromURL reports whether the keys come from a URL.
func (k *Keys) FromURL() bool { return k.url != "" }

// Fetched returns the Unix time of the last fetch of a URL that succeeded, and 0 before the
// first.
func (k *Keys) Fetched() int64 { return k.fetched.Load() }

// Reload begins to fetch the keys of a URL now.
func (k *Keys) Reload() {
	if k.url != "" {
		k.fetch(context.Background())
	}
}
