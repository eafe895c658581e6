package redisrules

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/emergency"
)

// Emergency returns the newest record. The server's expiry of the key ends it, so nodes
// whose clocks differ agree.
func (s *Source) Emergency(ctx context.Context) (r emergency.Record, left time.Duration, err error) {
	c, err := s.connect(ctx)
	if err != nil {
		return r, 0, err
	}
	reply, err := s.emergency.Exec(ctx, c, []string{s.key("emergency")}, nil).ToArray()
	if err != nil {
		return r, 0, s.explain(err)
	}
	if len(reply) != 2 {
		return r, 0, s.explain(errors.New("the script of the emergency returned an unexpected reply"))
	}
	value, err1 := reply[0].ToString()
	ms, err2 := reply[1].AsInt64()
	if err := errors.Join(err1, err2); err != nil {
		return r, 0, s.explain(err)
	}
	if value == "" || ms <= 0 {
		return r, 0, nil
	}
	r, err = decodeEmergency(value)
	if err != nil {
		return r, 0, s.explain(err)
	}
	return r, time.Duration(ms) * time.Millisecond, nil
}

// SwitchEmergency makes r the newest record.
func (s *Source) SwitchEmergency(ctx context.Context, r emergency.Record, d time.Duration, after string) (emergency.Record, error) {
	text, err := emergency.Encode(r)
	if err != nil {
		return r, err
	}
	c, err := s.connect(ctx)
	if err != nil {
		return r, err
	}
	value, err := s.switching.Exec(ctx, c, []string{s.key("emergency")}, []string{
		r.Revision, after, strconv.FormatInt(d.Milliseconds(), 10), text,
	}).ToString()
	switch {
	case err != nil:
		return r, s.explain(err)
	case value == "":
		return r, emergency.ErrChanged
	}
	return decodeEmergency(value)
}

// decodeEmergency parses a value of switch.lua. The times of the server replace those of the
// record.
func decodeEmergency(value string) (r emergency.Record, err error) {
	part := strings.SplitN(value, " ", 4)
	if len(part) != 4 {
		return r, fmt.Errorf("the record of the emergency is not valid: %.40q", value)
	}
	since, err1 := strconv.ParseInt(part[1], 10, 64)
	until, err2 := strconv.ParseInt(part[2], 10, 64)
	r, err3 := emergency.Decode(part[3])
	if err := errors.Join(err1, err2, err3); err != nil {
		return emergency.Record{}, fmt.Errorf("the record of the emergency is not valid: %w", err)
	}
	r.Since, r.Until = time.UnixMilli(since).UTC(), time.UnixMilli(until).UTC()
	return r, nil
}
