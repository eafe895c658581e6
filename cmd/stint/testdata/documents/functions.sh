# Functions that stand before the commands of a document, so that each runs as it is
# written: with the program under test, a server of its own on free ports, and the
# Redis server of the test.
set -euo pipefail

# port prints the port of a listener of the page's server, once the server is ready.
port() {
    for _ in $(seq 300); do
        if grep -q 'msg=ready' "$LOG" 2>/dev/null; then
            sed -nE "s/.*listening.* name=$1 addr=\S*:([0-9]+).*/\1/p" "$LOG"
            return
        fi
        sleep 0.1
    done
    cat "$LOG" >&2
    return 1
}

# translate sets `translated` to its arguments, with the addresses of this run instead of
# those of the documents.
translate() {
    local a dynamo="region=eu-west-1&endpoint=http://${DYNAMO-}"
    translated=()
    for a; do
        a=${a//10.0.0.5:6379/$REDIS} a=${a//127.0.0.1:6379/$REDIS}
        a=${a//10.0.0.7:5432\/limits/10.0.0.7\/limits} a=${a//10.0.0.7\/limits/${POSTGRES-}\/limits?sslmode=disable}
        a=${a//https:\/\/login.example.com\/.well-known\/jwks.json/jwks.json}
        a=${a//region=eu-west-1/"$dynamo"}
        case $a in
        *localhost:8080*) a=${a//localhost:8080/127.0.0.1:$(port http)} ;;
        *localhost:8000*) a=${a//localhost:8000/127.0.0.1:$(port gateway)} ;;
        *localhost:8081*) a=${a//localhost:8081/127.0.0.1:$(port grpc)} ;;
        *localhost:6070*) a=${a//localhost:6070/127.0.0.1:$(port admin)} ;;
        6380) a=$(port resp) ;;
        :8000 | :6380) a=127.0.0.1:0 ;;
        /etc/ratelimit/config | ratelimit/config) a=ratelimit ;;
        esac
        translated+=("$a")
    done
}

curl() {
    translate "$@"
    if [[ " $* " == *"/v1/live "* ]]; then # it has no end
        command curl --no-progress-meter --fail-with-body --max-time 2 "${translated[@]}" || [ $? = 28 ]
        return
    fi
    command curl --no-progress-meter --fail-with-body "${translated[@]}"
    echo
}

grpcurl() {
    translate "$@"
    if [[ " $* " == *"/v1/live "* ]]; then # it has no end
        command curl --no-progress-meter --fail-with-body --max-time 2 "${translated[@]}" || [ $? = 28 ]
        return
    fi
    command grpcurl "${translated[@]}"
}

psql() {
    translate "$@"
    command psql -q -v ON_ERROR_STOP=1 "${translated[@]}"
}

redis-cli() {
    translate "$@"
    command redis-cli -e "${translated[@]}"
}

stint() {
    if [ "$1" != serve ]; then
        translate "$@"
        if [[ " $* " != *" --source "* && " $* " != *" --server "* && ("$1 ${2-}" =~ ^(rules (show|diff|impact|apply|history|rollback|shadow|canary|promote|abort)|key|denied|nodes|emergency) || "$1 $*" =~ ^replay.*" live ") ]]; then
            translated+=(--server "http://127.0.0.1:$(port admin)")
        fi
        if [ "$1 ${2-}" = "rules repair" ]; then
            translated+=(--yes) # there is no terminal to ask at
        fi
        command stint "${translated[@]}"
        return
    fi
    stop
    : >"$LOG"
    translate "$@"
    command stint "${translated[@]}" >>"$LOG" 2>&1 &
    server=$!
    port http >/dev/null
}

stop() {
    if [ -n "${server-}" ]; then
        kill "$server" 2>/dev/null || true
        wait "$server" || true
        server=
    fi
}
trap stop EXIT

# make and jsonnet are not what the documents test.
make() { :; }
jsonnet() { cat rules.json; }
