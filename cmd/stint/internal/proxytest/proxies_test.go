//go:build linux

package proxytest

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/processtest"
	"github.com/stintdev/stint/internal/testserver"
)

// proxy is a program that queries Stint, as configured by the files of deploy/.
type proxy struct {
	name     string
	programs []string // the first one found is used
	// needs returns what the program lacks to run the files, or "".
	needs func(program string) string
	files []string // below deploy/, all copied
	// closed changes the files to fail closed, as their comments say.
	closed *strings.Replacer // nil: without the lines marked "fail open"
	// own replaces further paths and addresses in the files. "FOLDER", "PORT" and
	// "SPARE" stand for those of the test.
	own []string
	// slow replaces the timeouts for Stint, for tests that must not fail on a busy
	// machine.
	slow []string
	// main is a file that includes the first of files. args and check run the program on
	// it, with its path in place of MAIN.
	main        func(program string) string
	args, check []string
	// refused is the status for clients if the proxy fails closed.
	refused []int
	// passes are the statuses of another server in Stint's place for which a proxy that
	// fails open lets requests pass; see docs/forward-auth.md.
	passes []int
	// pinned names the program in .cache/servers to run instead of one of the system.
	pinned string
	// closedOnly marks a proxy that cannot fail open, and whose timeout for an answer is
	// fixed at half a minute.
	closedOnly bool
	// quiet marks a proxy that cannot add the limit to an allowed response. It adds the
	// limit to the request instead.
	quiet bool
	// knownMethods marks a proxy that refuses methods that no RFC defines.
	knownMethods bool
	// grpc marks a proxy that queries Stint over gRPC, so that an HTTP server in Stint's
	// place is an outage.
	grpc bool
	// http2 marks a proxy that accepts HTTP/2 without TLS.
	http2 bool
	// storeDown is the status while the store fails and a rule is closed; 0: 503.
	storeDown int
	// mute101 marks a proxy that cannot add the limit to a response that switches
	// protocols.
	mute101 bool
}

var proxies = []proxy{
	{
		name: "nginx", refused: []int{500}, programs: []string{"nginx"}, files: []string{"nginx/stint.conf"},
		passes: []int{200, 204},
		own:    []string{"listen 80;", "listen 127.0.0.1:PORT;"},
		slow:   []string{"_timeout 250ms", "_timeout 20s", "_timeout 500ms", "_timeout 20s"},
		main:   nginxMain, args: []string{"-c", "MAIN"}, check: []string{"-t", "-c", "MAIN"},
	},
	{
		name: "haproxy", refused: []int{503}, programs: []string{"haproxy"}, files: []string{"haproxy/haproxy.cfg", "haproxy/stint.lua"},
		passes: []int{502, 503, 504},
		needs:  luaBuiltIn,
		slow:   []string{"connect 250ms", "connect 20s", "server 500ms", "server 20s"},
		closed: strings.NewReplacer("8079 open", "8079 closed"),
		own:    []string{"bind :80", "bind 127.0.0.1:PORT", "/etc/haproxy/", "FOLDER/", "127.0.0.1:8079", "127.0.0.1:SPARE"},
		args:   []string{"-db", "-f", "FOLDER/haproxy.cfg"}, check: []string{"-c", "-f", "FOLDER/haproxy.cfg"},
		http2: true,
	},
	{
		name: "caddy", refused: []int{502, 503, 504}, programs: []string{"caddy"}, files: []string{"caddy/Caddyfile"},
		passes: []int{200, 204},
		slow:   []string{"_timeout 250ms", "_timeout 20s", "_timeout 500ms", "_timeout 20s"},
		own:    []string{":80 {", ":PORT {", "127.0.0.1:8079", "127.0.0.1:SPARE", "\tservers {", caddyOptions + "\tservers {"},
		args:   []string{"run", "--adapter", "caddyfile", "--config", "FOLDER/Caddyfile"},
		check:  []string{"validate", "--adapter", "caddyfile", "--config", "FOLDER/Caddyfile"},
	},
	{
		name: "apache", refused: []int{503}, programs: []string{"apache2", "httpd"}, files: []string{"apache/stint.conf", "apache/stint.lua"},
		passes: []int{502, 503, 504},
		needs:  luaModule,
		slow:   []string{"seconds = 0.5", "seconds = 20"},
		closed: strings.NewReplacer(`fail = "open"`, `fail = "closed"`),
		own:    []string{"*:80>", "127.0.0.1:PORT>", "/etc/apache2/", "FOLDER/"},
		main:   apacheMain, args: []string{"-DFOREGROUND", "-f", "MAIN"}, check: []string{"-t", "-f", "MAIN"},
		mute101: true,
	},
	{
		name: "caddy-pinned", pinned: "caddy", refused: []int{502, 503, 504}, files: []string{"caddy/Caddyfile"},
		passes: []int{200, 204},
		slow:   []string{"_timeout 250ms", "_timeout 20s", "_timeout 500ms", "_timeout 20s"},
		own:    []string{":80 {", ":PORT {", "127.0.0.1:8079", "127.0.0.1:SPARE", "\tservers {", caddyOptions + "\tservers {"},
		args:   []string{"run", "--adapter", "caddyfile", "--config", "FOLDER/Caddyfile"},
		check:  []string{"validate", "--adapter", "caddyfile", "--config", "FOLDER/Caddyfile"},
	},
	{
		name: "traefik", pinned: "traefik", refused: []int{500}, files: []string{"traefik/dynamic.yaml"},
		passes: []int{200, 204},
		main:   traefikMain, args: []string{"--configfile=FOLDER/main.yaml"},
		closedOnly: true, quiet: true, mute101: true, http2: true,
	},
	{
		name: "envoy", pinned: "envoy", refused: []int{503}, files: []string{"envoy/envoy.yaml"},
		passes: []int{200, 500, 501, 502, 503, 504, 505, 511}, closed: envoyClosed, slow: envoySlow, own: slices.Concat(envoyOwn, envoyRuleHeader),
		args: envoyArgs("envoy.yaml"), check: envoyCheck("envoy.yaml"),
		storeDown: http.StatusTooManyRequests, knownMethods: true, http2: true,
	},
	{
		name: "envoy-grpc", pinned: "envoy", refused: []int{503}, files: []string{"envoy/ext-authz-grpc.yaml"},
		closed: envoyClosed, slow: envoySlow, own: envoyOwn,
		args: envoyArgs("ext-authz-grpc.yaml"), check: envoyCheck("ext-authz-grpc.yaml"),
		knownMethods: true, grpc: true, http2: true,
	},
}

// The replacements are the same for both files of Envoy.
var (
	envoyClosed = strings.NewReplacer("failure_mode_allow: true", "failure_mode_allow: false")
	envoySlow   = []string{"timeout: 0.25s", "timeout: 20s", "timeout: 0.5s", "timeout: 20s"}
	envoyOwn    = []string{"0.0.0.0, port_value: 80}", "127.0.0.1, port_value: PORT}", "port_value: 3000}", "port_value: APPLICATION}"}
	// Over HTTP, Envoy forwards only the headers that the file names.
	envoyRuleHeader = []string{"- {exact: accept}", "- {exact: accept}\n                          - {exact: x-plan}"}
)

func envoyArgs(file string) []string {
	return []string{"-c", "FOLDER/" + file, "--concurrency", "1", "--use-dynamic-base-id", "--log-level", "warn"}
}

func envoyCheck(file string) []string {
	return append([]string{"--mode", "validate"}, envoyArgs(file)...)
}

func traefikMain(string) string {
	return "entryPoints: {web: {address: \"127.0.0.1:PORT\"}}\nproviders: {file: {filename: FOLDER/dynamic.yaml}}\nlog: {level: WARN}\n"
}

func nginxMain(string) string {
	text := "daemon off; worker_processes 1; pid FOLDER/pid; error_log stderr;\n"
	if os.Getuid() == 0 {
		text = "user root;\n" + text
	}
	text += "events { worker_connections 256; }\nhttp { access_log off;\n"
	for _, temp := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		text += temp + "_temp_path FOLDER/" + temp + ";\n"
	}
	return text + "include FOLDER/stint.conf; }\n"
}

// caddyOptions are global options, which must come first in a file.
const caddyOptions = "\tadmin off\n\tauto_https off\n\tdefault_bind 127.0.0.1\n\tstorage file_system FOLDER\n"

func apacheMain(string) string {
	text := "ServerRoot FOLDER\nPidFile FOLDER/pid\nErrorLog /dev/stderr\nLogLevel warn\nServerName localhost\nListen 127.0.0.1:PORT\n"
	for _, module := range []string{"mpm_event", "unixd", "authz_core", "lua", "proxy", "proxy_http"} {
		if file := apacheModule(module); file != "" { // the other modules are built in
			text += fmt.Sprintf("LoadModule %s_module %s\n", module, file)
		}
	}
	if os.Getuid() == 0 {
		text += "User nobody\nGroup #65534\n"
	}
	return text + "Include FOLDER/stint.conf\n"
}

func apacheModule(name string) string {
	return firstOf("/usr/lib*/apache2/modules/mod_"+name+".so", "/usr/lib*/httpd/modules/mod_"+name+".so", "/usr/lib/apache2/mod_"+name+".so")
}

// firstOf returns the first file that matches a pattern.
func firstOf(patterns ...string) string {
	for _, pattern := range patterns {
		if found, err := filepath.Glob(pattern); err == nil && len(found) > 0 {
			return found[0]
		}
	}
	return ""
}

func luaModule(string) string {
	switch {
	case apacheModule("lua") == "":
		return "mod_lua"
	case firstOf("/usr/share/lua/*/socket.lua", "/usr/local/share/lua/*/socket.lua") == "":
		return "LuaSocket"
	}
	return ""
}

func luaBuiltIn(program string) string {
	if out, err := exec.Command(program, "-vv").Output(); err != nil || !strings.Contains(string(out), "+LUA") {
		return "to be built with Lua"
	}
	return ""
}

// find returns the program, and skips the test if it is missing.
func (p *proxy) find(t *testing.T) string {
	t.Helper()
	if p.pinned != "" {
		return testserver.Pinned(t, p.pinned)
	}
	for _, name := range p.programs {
		for _, candidate := range []string{name, "/usr/sbin/" + name, "/usr/local/sbin/" + name} {
			path, err := exec.LookPath(candidate)
			if err != nil {
				continue
			}
			if p.needs != nil && p.needs(path) != "" {
				t.Skipf("%s needs %s (run scripts/install-test-servers)", p.name, p.needs(path))
			}
			return path
		}
	}
	t.Skipf("%s is not installed (run scripts/install-test-servers)", p.name)
	return ""
}

// mode is how a test changes the files.
type mode string

const (
	failsOpen   mode = "open" // unchanged
	failsClosed mode = "closed"
	patient     mode = "patient" // open, with timeouts for a busy machine
)

// set is a proxy configured for one test.
type set struct {
	proxy   *proxy
	program string
	folder  string
	addr    string // address of the proxy
	fill    *strings.Replacer
}

// exampleAddr matches the addresses of Stint and of the application in the files of
// deploy/. It matches whole ports: the port of a test can begin with the same digits, as
// 30001 does.
var exampleAddr = regexp.MustCompile(`127\.0\.0\.1:(8080|3000)\b`)

// configure copies the files of deploy/ and inserts the test's addresses.
func (p *proxy) configure(t *testing.T, stint, application string, how mode) *set {
	t.Helper()
	s := &set{proxy: p, program: p.find(t), folder: folder(t), addr: testserver.FreeAddr(t)}
	s.fill = strings.NewReplacer("FOLDER", s.folder, "PORT", port(s.addr), "SPARE", port(testserver.FreeAddr(t)), "MAIN", filepath.Join(s.folder, "main.yaml"), "APPLICATION", port(application))
	for _, file := range p.files {
		text := read(t, filepath.Join("../../../../deploy", file))
		switch how {
		case failsClosed:
			text = p.failClosed(text)
		case patient:
			text = strings.NewReplacer(p.slow...).Replace(text)
		}
		for i := 0; i < len(p.own); i += 2 {
			text = strings.ReplaceAll(text, p.own[i], s.fill.Replace(p.own[i+1]))
		}
		text = exampleAddr.ReplaceAllStringFunc(text, func(addr string) string {
			if port(addr) == "8080" {
				return stint
			}
			return application
		})
		text = strings.NewReplacer("127.0.0.1, port_value: 8080}", "127.0.0.1, port_value: "+port(stint)+"}",
			"127.0.0.1, port_value: 8081}", grpcHost+", port_value: "+port(stint)+"}").Replace(text)
		write(t, filepath.Join(s.folder, filepath.Base(file)), text)
	}
	if p.main != nil {
		write(t, filepath.Join(s.folder, "main.yaml"), s.fill.Replace(p.main(s.program)))
	}
	return s
}

// failClosed changes a file to fail closed, as its comments say.
func (p *proxy) failClosed(text string) string {
	if p.closed != nil {
		return p.closed.Replace(text)
	}
	var kept strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasSuffix(strings.TrimSpace(line), "# fail open") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

func (s *set) filled(args []string) (all []string) {
	for _, a := range args {
		all = append(all, s.fill.Replace(a))
	}
	return all
}

func (s *set) start(t *testing.T) {
	t.Helper()
	processtest.Start(t, s.addr, s.program, s.filled(s.proxy.args)...)
	if s.proxy.closedOnly {
		awaitRoutes(t, s.addr)
	}
}

// awaitRoutes waits until Traefik has read its routes, before which it answers 404.
func awaitRoutes(t *testing.T, addr string) {
	t.Helper()
	for end := time.Now().Add(processtest.Patience); time.Now().Before(end); <-time.After(10 * time.Millisecond) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		if answer, err := http.DefaultClient.Do(r); err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode != http.StatusNotFound {
				return
			}
		}
	}
	t.Fatal("the proxy reads no routes")
}

// TestProxiesAcceptTheirFiles runs each proxy's own configuration check.
func TestProxiesAcceptTheirFiles(t *testing.T) {
	for i := range proxies {
		p := &proxies[i]
		t.Run(p.name, func(t *testing.T) {
			if p.check == nil {
				t.Skip("it has no checker of files")
			}
			for _, how := range []mode{failsOpen, failsClosed, patient} {
				s := p.configure(t, "127.0.0.1:8080", "127.0.0.1:3000", how)
				command := exec.CommandContext(t.Context(), s.program, s.filled(p.check)...)
				if out, err := command.CombinedOutput(); err != nil || strings.Contains(strings.ToLower(string(out)), "[warning]") {
					t.Errorf("%s: %v: %s", how, err, out)
				}
			}
		})
	}
}

// TestFilesSayWhatIsReplaced verifies that the tests run the files that users read:
// every replaced text is in the files, and no placeholder is left.
func TestFilesSayWhatIsReplaced(t *testing.T) {
	for i := range proxies {
		p := &proxies[i]
		var all string
		for _, file := range p.files {
			all += read(t, filepath.Join("../../../../deploy", file))
		}
		for i, pairs := 0, append(slices.Clone(p.own), p.slow...); i < len(pairs); i += 2 {
			if !strings.Contains(all, pairs[i]) {
				t.Errorf("%s: %s is not in the files", p.name, pairs[i])
			}
		}
		if closed := p.failClosed(all); !p.closedOnly && (closed == all || strings.Contains(closed, "# fail open")) {
			t.Errorf("%s does not fail closed as it says", p.name)
		}
	}
}
