package stint_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/stintdev/stint"

// arrows lists which packages of this repository, of any of its modules, each package
// may import. A package may also import what those packages import. A package that is
// missing here fails the test, so that somebody decides on its imports.
var arrows = map[string]struct {
	may     []string // "." is the root; a path ending in /… means all below it
	because string
}{
	".":                              {[]string{"internal/clock", "internal/groupcall", "internal/table"}, "a program that uses the library must not download a server"},
	"internal/clock":                 {nil, "it reads clocks, and knows nothing of limits"},
	"internal/groupcall":             {nil, "the root uses it, so it knows no claims"},
	"internal/table":                 {nil, "a table of bytes knows nothing of limits"},
	"internal/boundedcache":          {nil, "it caches anything"},
	"internal/coalesce":              {nil, "it combines pending calls of any kind into round trips, so it knows no claims and no store"},
	"internal/callerbudget":          {[]string{"."}, "it counts bytes in any server"},
	"internal/cas":                   {[]string{".", "storekit", "internal/callerbudget", "internal/coalesce"}, "it decides over any server that can compare and swap, so it knows none"},
	"internal/crossgroup":            {[]string{".", "storekit"}, "it cuts a group by any kind of place, so it knows no store"},
	"internal/cas/casmem":            {[]string{".", "internal/cas"}, "it is a server for tests"},
	"internal/suggest":               {nil, "it compares words"},
	"internal/hostname":              {nil, "it compares names"},
	"internal/urlpath":               {nil, "it rewrites a path"},
	"internal/httpfield":             {nil, "it splits header fields"},
	"internal/shorthash":             {nil, "it hashes bytes"},
	"storekit":                       {[]string{".", "internal/groupcall"}, "it serves every store, so it depends on no particular one"},
	"internal/errlog":                {[]string{"."}, "it logs the errors of any decision"},
	"internal/nameset":               {nil, "it bounds names, whatever they name"},
	"internal/secret":                {nil, "it reads secrets from files, whatever their use"},
	"internal/oracle":                {[]string{"."}, "it judges the steps, so it may share nothing with them but their public types"},
	"internal/leasecheck":            {[]string{"."}, "it judges what leases promise, so it may share nothing with them"},
	"cmd/stint/internal/failuretest": {nil, "it is tests alone"},
	"cmd/stint/internal/proxytest":   {[]string{"cmd/stint/internal/processtest", "internal/testserver"}, "it is tests alone, of the program and proxies as they run"},
	"cmd/stint/internal/processtest": {nil, "it runs programs for tests, whatever they are"},
	"internal/memcachedtest":         {[]string{"internal/testserver"}, "it starts what the tests of any package speak to, so it knows none"},
	"internal/pgtest":                {[]string{"internal/testserver"}, "it starts what the tests of any package speak to, so it knows none"},
	"internal/property":              {nil, "it draws the cases of tests, whatever they test"},
	"internal/dynamotest":            {[]string{"internal/testserver"}, "it starts what the tests of any package speak to, so it knows none"},
	"internal/testserver":            {nil, "it finds programs and ports, whatever they serve"},
	"internal/redistest":             {[]string{"internal/testserver"}, "it starts what the tests of any package speak to, so it knows none"},
	"storetest":                      {[]string{".", "storekit", "internal/oracle"}, "it is the contract of every store, so it knows none"},
	"resilience/internal/check":      {nil, "it checks the options of all resilience packages"},
	"resilience/internal/monotonic":  {nil, "it reads any clock"},
	"resilience/internal/tenths":     {nil, "it counts events of any kind"},
	"resilience/breaker":             {[]string{"resilience/internal/check", "resilience/internal/monotonic"}, "a program without limits can use it alone"},
	"resilience/retrybudget":         {[]string{"resilience/internal/check", "resilience/internal/monotonic", "resilience/internal/tenths"}, "a program with retries of its own can use it alone"},
	"resilience/bulkhead":            {[]string{"resilience/internal/check"}, "it bounds calls of any kind"},
	"resilience/retry":               {[]string{"resilience/internal/check"}, "an interface bounds the retries; the budget is passed in"},
	"resilience/deadline":            {nil, "it carries a time, whatever the request is"},
	"resilience/adaptive":            {[]string{"resilience/internal/check", "resilience/internal/monotonic", "resilience/internal/tenths"}, "it sheds calls of any kind; limits are numbers to it"},
	"resilience/client":              {[]string{".", "resilience/breaker", "resilience/bulkhead", "resilience/deadline", "resilience/retry", "storekit"}, "it combines the parts; budgets and limiters are passed in; of the root it knows the observer and the errors of a limiter, and of storekit the metrics of an exporter"},

	"resilience/grpcclient": {[]string{".", "resilience/breaker", "resilience/client", "resilience/retry"}, "it is the client for another protocol, which a program that calls over HTTP does not download"},

	"memcachedstore":                 {[]string{".", "storekit", "internal/cas"}, "it takes items to servers; what they mean is decided above it, as is what a failure means"},
	"memcachedstore/memcachedopen":   {[]string{"layered", "memcachedstore"}, "it opens a client with its layers, for programs that do nothing else with them"},
	"dynamostore":                    {[]string{".", "storekit", "internal/cas"}, "it takes items to a server; what they mean is decided above it, as is what a failure means"},
	"dynamostore/dynamoopen":         {[]string{"layered", "dynamostore"}, "it opens a client with its layers, for programs that do nothing else with them"},
	"postgresstore":                  {[]string{".", "storekit", "internal/cas"}, "it takes items to a server; what they mean is decided above it, as is what a failure means"},
	"postgresstore/postgresopen":     {[]string{"layered", "postgresstore"}, "it opens a client with its layers, for programs that do nothing else with them"},
	"quorumstore":                    {[]string{".", "storekit", "internal/cas", "internal/secret"}, "it takes items to servers; what they mean is decided above it, as is what a failure means"},
	"quorumstore/quorumopen":         {[]string{"layered", "quorumstore"}, "it opens a client with its layers, for programs that do nothing else with them"},
	"redisstore":                     {[]string{".", "storekit", "internal/callerbudget", "internal/clock", "internal/coalesce", "internal/crossgroup", "internal/shorthash", "internal/secret"}, "it takes claims to servers; what their failure means is decided around it"},
	"lease":                          {[]string{".", "internal/boundedcache", "storekit"}, "it leases from any store, so it knows none"},
	"remotestore":                    {[]string{".", "storekit", "api/…", "internal/boundedcache", "internal/coalesce", "internal/secret"}, "it takes claims to a server; what its failure means is decided around it"},
	"guard":                          {[]string{".", "internal/boundedcache", "internal/clock", "storekit", "lease", "resilience/breaker"}, "it guards any store, so it knows none but that which leases, to refuse it"},
	"redisstore/redisopen":           {[]string{"layered", "redisstore"}, "it opens a client with its layers, for programs that do nothing else with them"},
	"remotestore/remoteopen":         {[]string{"layered", "remotestore"}, "it opens a client with its layers, for programs that do nothing else with them"},
	"layered":                        {[]string{".", "guard", "lease", "storekit"}, "it puts layers around any store, so it knows none"},
	"internal/jsonpos":               {nil, "it parses JSON"},
	"rule":                           {[]string{".", "storekit", "internal/suggest", "internal/shorthash", "internal/hostname", "internal/urlpath", "internal/jsonpos"}, "rules are decided for every surface alike, so they know none"},
	"cmd/stint/internal/ruleedit":    {[]string{".", "rule", "internal/jsonpos"}, "it edits the text of rules and decides nothing"},
	"rule/rulelimit":                 {[]string{".", "rule", "httplimit", "internal/suggest", "storekit"}, "it decides requests over HTTP by rules, for the server as for any program; calls of gRPC are such requests to it"},
	"httplimit":                      {[]string{".", "internal/hostname", "internal/httpfield", "internal/suggest", "internal/urlpath", "internal/errlog"}, "a program that limits by a limiter of its own needs no rule files"},
	"httplimit/jwtverify":            {[]string{".", "httplimit"}, "it verifies tokens, and counts nothing"},
	"grpclimit":                      {[]string{".", "httplimit", "internal/errlog"}, "a call is a request over HTTP/2, so it shares the identities and the answers; it needs no rules"},
	"cmd/stint/internal/rulecase":    {[]string{".", "rule", "cmd/stint/internal/penalty", "cmd/stint/internal/yamlfile"}, "it decides as the server's rules do, without a server"},
	"cmd/stint/internal/replayhtml":  {[]string{"cmd/stint/internal/replay", "cmd/stint/internal/ruleedit"}, "it writes a report, and decides nothing"},
	"cmd/stint/internal/limitsearch": {[]string{".", "cmd/stint/internal/replay"}, "it decides the events of a replay by arithmetic of its own"},
	"cmd/stint/internal/replay":      {[]string{".", "cmd/stint/internal/nodeadline", "storekit", "rule", "internal/suggest"}, "it decides as the rules do, without a server"},
	"cmd/stint/internal/filewatch":   {nil, "it reports that a file may have changed, and does not read it"},
	"cmd/stint/internal/envoyrls":    {[]string{".", "cmd/stint/internal/emergency", "storekit", "internal/boundedcache", "rule", "cmd/stint/internal/filewatch", "internal/suggest"}, "it decides as Envoy asks over a store that is handed to it; of rules it has only the way to say what is wrong in a file"},
	"cmd/stint/internal/ruleset":     {[]string{"rule", "cmd/stint/internal/filewatch", "cmd/stint/internal/live"}, "it brings rule sets and decides nothing"},
	"cmd/stint/internal/ruletest":    {[]string{"cmd/stint/internal/emergency", "rule", "cmd/stint/internal/ruleset"}, "it is the contract of every source of rules, so it knows none"},
	"cmd/stint/internal/redisrules":  {[]string{".", "cmd/stint/internal/emergency", "cmd/stint/internal/ruleset", "redisstore"}, "it keeps versions; it reads where its servers are as the store does, and counts nothing"},
	"cmd/stint/internal/emergency":   {[]string{".", "internal/suggest", "rule"}, "it says what an emergency is; sources carry it, and surfaces add its claim"},
	"cmd/stint/internal/pgrules":     {[]string{"cmd/stint/internal/emergency", "cmd/stint/internal/ruleset", "internal/secret"}, "it keeps versions, and decides nothing"},
	"cmd/stint/internal/identity":    {[]string{".", "httplimit", "httplimit/jwtverify", "internal/httpfield", "internal/secret", "rule"}, "it says who a client is for every surface, and decides nothing"},
	"cmd/stint/internal/decide":      {[]string{".", "cmd/stint/internal/emergency", "storekit", "rule", "cmd/stint/internal/w3ctrace"}, "it decides for every surface, so it knows no protocol"},
	"cmd/stint/internal/httpapi":     {[]string{".", "cmd/stint/internal/decide", "cmd/stint/internal/nodeadline", "httplimit", "internal/boundedcache", "internal/httpfield", "internal/secret", "internal/suggest", "rule", "cmd/stint/internal/tracing", "cmd/stint/internal/w3ctrace"}, "it reads and writes HTTP; package decide makes the decisions, and it knows no other surface"},
	"cmd/stint/internal/resp":        {[]string{".", "cmd/stint/internal/decide", "internal/boundedcache", "internal/secret"}, "it reads and writes the Redis protocol; package decide makes the decisions"},
	"api/…":                          {nil, "whoever speaks the protocol needs nothing else of ours"},
	"cmd/stint/internal/nodeadline":  {nil, "it is a context"},
	"cmd/stint/internal/w3ctrace":    {nil, "it reads what any caller sends"},
	"cmd/stint/internal/tracing":     {[]string{".", "storekit", "cmd/stint/internal/w3ctrace"}, "it records what any surface does, and sends nothing"},
	"cmd/stint/internal/otlpexport":  {[]string{"cmd/stint/internal/tracing", "cmd/stint/internal/w3ctrace"}, "it sends what others have counted and recorded"},
	"cmd/stint/internal/statsd":      {nil, "it sends what others have counted"},
	"cmd/stint/internal/gateway":     {[]string{"cmd/stint/internal/http1client", "resilience/…", "internal/hostname", "internal/secret", "internal/urlpath", "cmd/stint/internal/w3ctrace", "cmd/stint/internal/tracing"}, "it forwards requests; the code around it decides which ones, and what protects upstreams and clients is the packages of resilience"},
	"cmd/stint/internal/gatewayfile": {[]string{"cmd/stint/internal/gateway", "resilience/breaker", "resilience/bulkhead", "cmd/stint/internal/yamlfile", "internal/secret"}, "it reads a file, and serves nothing"},
	"cmd/stint/internal/yamlfile":    {[]string{"internal/suggest", "rule"}, "it parses YAML; of rules it has only the way to say what is wrong in a file"},
	"cmd/stint/internal/burst":       {nil, "it orders writes, whatever they write"},
	"cmd/stint/internal/http1line":   {nil, "it reads lines, whoever sends them"},
	"cmd/stint/internal/http1server": {[]string{"cmd/stint/internal/burst", "cmd/stint/internal/http1line"}, "it serves requests, whatever answers them"},
	"cmd/stint/internal/http1client": {[]string{"cmd/stint/internal/burst", "cmd/stint/internal/http1line", "cmd/stint/internal/peek"}, "it sends requests, whoever makes them"},
	"cmd/stint/internal/grpcapi":     {[]string{".", "cmd/stint/internal/decide", "internal/boundedcache", "rule", "api/…", "internal/secret", "cmd/stint/internal/tracing", "cmd/stint/internal/w3ctrace"}, "it reads and writes messages; package decide makes the decisions, and its caller says which clients are allowed"},
	"cmd/stint/internal/siphash":     {nil, "it hashes what callers choose, for whoever has a key"},
	"cmd/stint/internal/impact":      {[]string{".", "rule", "cmd/stint/internal/siphash"}, "it decides again what others have decided"},
	"cmd/stint/internal/decisionlog": {[]string{".", "rule", "cmd/stint/internal/impact", "cmd/stint/internal/siphash", "cmd/stint/internal/w3ctrace", "cmd/stint/internal/envoyrls"}, "it writes down what others have decided"},
	"cmd/stint/internal/multistore":  {[]string{".", "storekit", "internal/crossgroup"}, "it joins any stores, so it knows none"},
	"cmd/stint/internal/penalty":     {[]string{".", "storekit", "rule"}, "it punishes over any store, so it knows none"},
	"cmd/stint/internal/adminapi":    {[]string{".", "cmd/stint/internal/emergency", "rule", "cmd/stint/internal/ruleedit", "cmd/stint/internal/impact", "internal/suggest", "cmd/stint/internal/ruleset", "cmd/stint/internal/topkeys", "cmd/stint/internal/denials", "cmd/stint/internal/live", "cmd/stint/internal/replay", "cmd/stint/internal/decisionlog"}, "it changes rules and keys for whoever serves it, and replays the decision log"},
	"cmd/stint/internal/live":        {nil, "it keeps what any server has counted"},
	"cmd/stint/internal/adminui":     {nil, "it serves files; the pages ask the admin API as any program does"},
	"cmd/stint/internal/adminclient": {[]string{"rule", "cmd/stint/internal/impact", "cmd/stint/internal/ruleset", "cmd/stint/internal/topkeys", "cmd/stint/internal/denials"}, "it asks for changes, and reads answers in the words of who writes them"},
	"cmd/stint/internal/metrics":     {[]string{".", "internal/nameset", "rule", "cmd/stint/internal/decide", "cmd/stint/internal/decisionlog", "cmd/stint/internal/envoyrls", "cmd/stint/internal/gateway", "cmd/stint/internal/slowclient", "resilience/adaptive", "cmd/stint/internal/emergency", "cmd/stint/internal/ruleset", "cmd/stint/internal/live"}, "it counts what the surfaces report, and decides nothing"},
	"cmd/stint/internal/peek":        {nil, "it looks at a socket, whoever serves it"},
	"cmd/stint/internal/slowclient":  {[]string{"cmd/stint/internal/peek", "httplimit"}, "it cuts clients off whatever is served; only the count of denials knows of limits"},
	"cmd/stint/internal/server":      {[]string{".", "cmd/stint/internal/emergency", "cmd/stint/internal/metrics", "cmd/stint/internal/slowclient", "cmd/stint/internal/topkeys", "cmd/stint/internal/adminapi", "cmd/stint/internal/adminui", "cmd/stint/internal/decide", "cmd/stint/internal/decisionlog", "cmd/stint/internal/httpapi", "cmd/stint/internal/identity", "cmd/stint/internal/impact", "rule", "httplimit", "cmd/stint/internal/envoyrls", "cmd/stint/internal/gateway", "cmd/stint/internal/grpcapi", "cmd/stint/internal/http1server", "cmd/stint/internal/peek", "cmd/stint/internal/penalty", "cmd/stint/internal/resp", "cmd/stint/internal/ruleset", "rule/rulelimit", "resilience/adaptive", "resilience/deadline", "cmd/stint/internal/filewatch", "internal/secret", "cmd/stint/internal/tracing", "cmd/stint/internal/w3ctrace", "cmd/stint/internal/denials", "cmd/stint/internal/live"}, "it joins the surfaces to a store that its caller picks"},
	"cmd/stint/internal/denials":     {[]string{".", "rule", "cmd/stint/internal/decisionlog", "cmd/stint/internal/emergency", "cmd/stint/internal/envoyrls", "cmd/stint/internal/impact", "cmd/stint/internal/topkeys"}, "it keeps what others have decided, and shows it as the decision log and the top keys do"},
	"cmd/stint/internal/topkeys":     {[]string{".", "cmd/stint/internal/impact"}, "it counts what any store is asked for"},
	"cmd/stint/internal/remotetest":  {nil, "it is tests alone"},
	"cmd/stint":                      {[]string{".", "storekit", "rule", "cmd/stint/internal/ruleedit", "httplimit", "cmd/stint/internal/replay", "cmd/stint/internal/replayhtml", "cmd/stint/internal/limitsearch", "dynamostore", "dynamostore/dynamoopen", "memcachedstore", "memcachedstore/memcachedopen", "postgresstore", "postgresstore/postgresopen", "quorumstore", "quorumstore/quorumopen", "redisstore", "redisstore/redisopen", "remotestore", "remotestore/remoteopen", "guard", "layered", "lease", "resilience/adaptive", "resilience/breaker", "cmd/stint/internal/adminapi", "cmd/stint/internal/adminclient", "cmd/stint/internal/decisionlog", "cmd/stint/internal/gatewayfile", "cmd/stint/internal/identity", "cmd/stint/internal/impact", "cmd/stint/internal/metrics", "cmd/stint/internal/multistore", "internal/suggest", "cmd/stint/internal/pgrules", "cmd/stint/internal/redisrules", "cmd/stint/internal/rulecase", "cmd/stint/internal/ruleset", "cmd/stint/internal/server", "cmd/stint/internal/yamlfile", "internal/secret", "cmd/stint/internal/emergency", "cmd/stint/internal/topkeys", "cmd/stint/internal/otlpexport", "cmd/stint/internal/statsd", "cmd/stint/internal/tracing", "cmd/stint/internal/denials"}, "it wires; work belongs in what it wires"},
	"examples/internal/program":      {[]string{"internal/testserver"}, "it runs any example for its test"},
	"examples/…":                     {[]string{".", "examples/…", "grpclimit", "httplimit", "layered", "redisstore/redisopen", "resilience/…", "rule", "storekit", "contrib/…"}, "an example uses what its reader can use"},
	"examples":                       {nil, "it is tests alone"},
	"docs":                           {nil, "it is tests alone"},
	"deploy":                         {nil, "it is tests alone"},
	"scripts":                        {nil, "it is tests alone"},
	"scripts/checkdeps":              {nil, "it looks at dependencies, and should have none"},
	"scripts/licenses":               {nil, "it reads the licenses of what the program imports, and imports nothing"},

	"contrib/stintprom":                 {[]string{".", "internal/nameset", "resilience/client", "resilience/retrybudget", "storekit"}, "it exports what observers and stores report, and imports no store"},
	"contrib/stintotel":                 {[]string{".", "internal/nameset", "resilience/client", "resilience/retrybudget", "storekit"}, "it exports what observers and stores report, and imports no store"},
	"contrib/stintpolicy":               {[]string{"."}, "it is a policy of failsafe-go over any limiter"},
	"bench":                             {[]string{".", "api/…", "dynamostore", "guard", "internal/dynamotest", "internal/memcachedtest", "internal/pgtest", "internal/testserver", "layered", "lease", "memcachedstore", "postgresstore", "quorumstore", "redisstore"}, "it measures the libraries as users call them, and the program as a process"},
	"bench/pictures":                    {[]string{".", "bench/simulate"}, "it draws what the algorithms and the simulation answer"},
	"bench/simulate":                    {[]string{"resilience/…"}, "it simulates clients and servers, so it needs no limits"},
	"cmd/stint/internal/contracttest":   {nil, "it is tests alone"},
	"cmd/stint/internal/oteltest":       {nil, "it is tests alone"},
	"cmd/stint/internal/redisstoretest": {nil, "it is tests alone"},
	"cmd/stint/internal/docstest":       {nil, "it is tests alone"},
	"cmd/stint/internal/deploytest":     {nil, "it is tests alone"},
	"cmd/stint/internal/monitoringtest": {nil, "it is tests alone"},
	"cmd/stint/internal/moduletest":     {nil, "it is tests alone"},
	"cmd/stint/internal/uitest":         {nil, "it is tests alone"},
}

// thirdParty lists the packages that import nothing but the standard library and
// this module, with the reason.
var thirdParty = map[string]string{
	".":                       "a program that uses the library downloads nothing else",
	"internal/clock":          "it belongs to the root",
	"internal/groupcall":      "it belongs to the root",
	"internal/table":          "it belongs to the root",
	"storekit":                "a program with a store of its own downloads nothing else",
	"resilience/breaker":      "a program that breaks circuits downloads nothing else",
	"resilience/retrybudget":  "a program that bounds retries downloads nothing else",
	"resilience/bulkhead":     "a program that separates dependencies downloads nothing else",
	"resilience/retry":        "a program that retries downloads nothing else",
	"resilience/deadline":     "a program that carries deadlines downloads nothing else",
	"resilience/adaptive":     "a program that sheds load downloads nothing else",
	"resilience/client":       "a program that calls over HTTP downloads nothing else",
	"httplimit":               "a program that limits requests downloads nothing else",
	"internal/secret":         "passwords pass through it, so it can be read whole",
	"cmd/stint/internal/resp": "it reads what anyone sends, so it can be read whole",
	"internal/hostname":       "security rests on it, so it can be read whole",
	"internal/urlpath":        "security rests on it, so it can be read whole",
}

func TestArrows(t *testing.T) {
	for _, p := range packages(t) {
		name := p.name
		for dir := path.Dir(name); arrows[name].because == "" && dir != "."; dir = path.Dir(dir) {
			name = dir + "/…"
		}
		arrow, ok := arrows[name]
		if !ok {
			t.Errorf("package %s has no arrows (say in arrows_test.go what it may import, and why)", p.name)
			continue
		}
		for _, imported := range p.ours {
			if !allowed(arrow.may, imported) {
				t.Errorf("%s must not import %s, because %s", p.name, imported, arrow.because)
			}
		}
		if why, ok := thirdParty[p.name]; ok && len(p.others) > 0 {
			t.Errorf("%s must not import %v, because %s", p.name, p.others, why)
		}
	}
}

func allowed(may []string, imported string) bool {
	return slices.ContainsFunc(may, func(m string) bool {
		below, all := strings.CutSuffix(m, "…")
		return m == imported || all && strings.HasPrefix(imported, below)
	})
}

// imports holds the imports of one package: packages of this repository by their
// folder, and third-party packages.
type imports struct {
	name         string
	ours, others []string
}

func packages(t *testing.T) (all []imports) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", "work").Output()
	if err != nil {
		t.Fatal(err)
	}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath string
			Imports    []string
		}
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, sortImports(p.ImportPath, p.Imports))
	}
}

func sortImports(name string, imported []string) imports {
	p := imports{name: folder(name)}
	for _, i := range imported {
		first, _, _ := strings.Cut(i, "/")
		switch {
		case i == module || strings.HasPrefix(i, module+"/"):
			p.ours = append(p.ours, folder(i))
		case strings.Contains(first, "."):
			p.others = append(p.others, i)
		}
	}
	return p
}

func folder(importPath string) string {
	if importPath == module {
		return "."
	}
	return strings.TrimPrefix(importPath, module+"/")
}
