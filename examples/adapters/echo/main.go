// Command echo limits a group of routes of an echo server by client address.
// echo.WrapMiddleware adapts net/http middleware.
package main

import (
	"cmp"
	"log"
	"net/http"
	"os"

	"github.com/labstack/echo/v5"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/httplimit"
)

func main() {
	limiter, err := stint.NewLimiter(stint.NewMemory(stint.MemoryOptions{}), "api", stint.MustParseLimit("3/h"))
	if err != nil {
		log.Fatal(err)
	}
	limited, err := httplimit.Limit(limiter, httplimit.Options{})
	if err != nil {
		log.Fatal(err)
	}
	server := echo.New()
	server.GET("/healthz", hello)
	api := server.Group("/api", echo.WrapMiddleware(limited.Wrap))
	api.GET("/", hello)
	log.Fatal(server.Start(cmp.Or(os.Getenv("ADDR"), "localhost:8080")))
}

func hello(c *echo.Context) error {
	return c.String(http.StatusOK, "hello\n")
}
