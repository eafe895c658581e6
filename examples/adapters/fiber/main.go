// Command fiber limits a group of routes of a fiber server by client address. fiber
// runs on fasthttp; its adaptor runs net/http middleware, and copies each request and
// its answer between the two.
package main

import (
	"cmp"
	"log"
	"os"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/adaptor"

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
	app := fiber.New()
	app.Get("/healthz", hello)
	api := app.Group("/api", adaptor.HTTPMiddleware(limited.Wrap))
	api.Get("/", hello)
	log.Fatal(app.Listen(cmp.Or(os.Getenv("ADDR"), "localhost:8080")))
}

func hello(c fiber.Ctx) error {
	return c.SendString("hello\n")
}
