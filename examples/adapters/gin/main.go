// Command gin limits a group of routes of a gin server by client address. gin has no
// adapter for net/http middleware, so it calls Admit.
package main

import (
	"cmp"
	"log"
	"net/http"
	"os"

	"github.com/gin-gonic/gin"

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
	engine := gin.New()
	engine.GET("/healthz", hello)
	api := engine.Group("/api", admit(limited))
	api.GET("/", hello)
	log.Fatal(engine.Run(cmp.Or(os.Getenv("ADDR"), "localhost:8080")))
}

// admit makes gin middleware of the limit. A request that it does not admit is answered,
// and gin must not call the handlers that follow.
func admit(limited *httplimit.Middleware) gin.HandlerFunc {
	return func(c *gin.Context) {
		if !limited.Admit(c.Writer, c.Request) {
			c.Abort()
		}
	}
}

func hello(c *gin.Context) {
	c.String(http.StatusOK, "hello\n")
}
