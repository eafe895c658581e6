// Command connect limits the calls of a Connect service by client address, with an
// interceptor. A denied call gets the code resource_exhausted and the header
// Retry-After, in each of the protocols Connect, gRPC and gRPC-Web.
package main

import (
	"cmp"
	"context"
	"log"
	"net/http"
	"os"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/httplimit"
)

func main() {
	limiter, err := stint.NewLimiter(stint.NewMemory(stint.MemoryOptions{}), "ping", stint.MustParseLimit("3/h"))
	if err != nil {
		log.Fatal(err)
	}
	limited, err := limit(limiter, httplimit.Options{})
	if err != nil {
		log.Fatal(err)
	}
	const procedure = "/ping.v1.PingService/Ping"
	mux := http.NewServeMux()
	mux.Handle(procedure, connect.NewUnaryHandler(procedure, ping, connect.WithInterceptors(limited)))
	server := &http.Server{
		Addr:              cmp.Or(os.Getenv("ADDR"), "localhost:8080"),
		Handler:           mux,
		ReadHeaderTimeout: 10 * time.Second,
	}
	log.Fatal(server.ListenAndServe())
}

func ping(context.Context, *connect.Request[emptypb.Empty]) (*connect.Response[emptypb.Empty], error) {
	return connect.NewResponse(&emptypb.Empty{}), nil
}
