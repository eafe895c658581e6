package main

import (
	"context"
	_ "embed"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

// plainScript is a bucket on one key.
//
//go:embed plain.lua
var plainScript string

// plainArgs is an allowance as the script's arguments, with a cost of 1.
func plainArgs(a allowance) []string {
	p, q := int64(time.Second/time.Microsecond), a.every.Microseconds()
	d := gcd(p, q)
	return []string{micro(a.burst), decimal(p / d), decimal(q / d), decimal(a.window().Microseconds()), micro(1)}
}

func micro(units int64) string { return decimal(units * 1_000_000) }

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// plain calls the script by the same client that Stint uses, which pipelines
// calls that come at once. Every call is one key.
func (s *redisServer) plain(a allowance) (take, func(), error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.addr()}, DisableCache: true})
	if err != nil {
		return nil, nil, err
	}
	script, args, ctx := rueidis.NewLuaScript(plainScript), plainArgs(a), context.Background()
	return func(key string) bool {
		answer, err := script.Exec(ctx, client, []string{key}, args).ToString()
		return err == nil && answer[len(answer)-1] == '+' && len(answer) > 21
	}, client.Close, nil
}
