# shellcheck shell=bash disable=SC2154 # variables are bench-front's
# The servers that scripts/bench-front loads beside Weir: each function starts one and adds it to the peers. Sourced by it.

# 16 workers on one socket: the kernel shares connections among those that wait.
start_shared_socket() {
    start shared "$binaries/weir-bench" front-worker --port 0 --processes "$workers"
    wait_for shared grep -q workers "$folder/shared.log"
    port=$(sed -n 's/listening on .*://p' "$folder/shared.log")
    peer 'shared socket' "$pid"
}

# 16 workers with a socket each, for proxies.
start_workers() {
    [ -z "${behind:-}" ] || return 0
    start workers "$binaries/weir-bench" front-worker --socket "$folder/{index}.sock" --processes "$workers"
    wait_for workers grep -q workers "$folder/workers.log"
    behind=$pid
}

nginx_head() {
    # Its workers must reach the sockets, which lie in a folder of ours.
    [ "$(id -u)" != 0 ] || echo 'user root;'
    cat <<CONF
daemon off;
worker_processes 1;
worker_rlimit_nofile 16384;
pid $folder/$1.pid;
error_log $folder/$1.log error;
events { worker_connections 8192; }
http {
    access_log off;
    keepalive_requests 1000000000;
    client_body_temp_path $folder/$1-body;
    proxy_temp_path $folder/$1-proxy;
    fastcgi_temp_path $folder/$1-fastcgi;
    uwsgi_temp_path $folder/$1-uwsgi;
    scgi_temp_path $folder/$1-scgi;
CONF
}

# The policies named, each on a port of its own.
start_nginx() {
    is_there nginx || return 0
    start_workers
    local policy index ports=()
    {
        nginx_head nginx
        for policy in "$@"; do
            take_port
            ports+=("$port")
            echo "upstream at_$port { zone at_$port 256k;"
            [ "$policy" = 'round robin' ] || echo "    $policy;"
            for ((index = 0; index < workers; index++)); do
                echo "    server unix:$folder/$index.sock max_fails=0;"
            done
            echo "} server { listen 127.0.0.1:$port backlog=4096; location / { proxy_pass http://at_$port; } }"
        done
        echo '}'
    } >"$folder/nginx.conf"
    start nginx nginx -c "$folder/nginx.conf" -e "$folder/nginx.log"
    for policy in "$@"; do
        port=${ports[0]}
        ports=("${ports[@]:1}")
        wait_for nginx is_open "$port"
        peer "nginx ${policy/_/ }" "$pid,$behind"
    done
}

haproxy_head() {
    cat <<CONF
global
    nbthread 1
    maxconn 8192
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
    timeout queue 60s
frontend front
    bind 127.0.0.1:$port
    default_backend back
backend back
CONF
}

# One request at a time for each worker; the others wait in its one queue.
start_haproxy() {
    is_there haproxy || return 0
    start_workers
    take_port
    {
        haproxy_head
        echo '    balance leastconn'
        for ((index = 0; index < workers; index++)); do
            echo "    server w$index unix@$folder/$index.sock maxconn 1"
        done
    } >"$folder/haproxy.cfg"
    start haproxy haproxy -db -f "$folder/haproxy.cfg"
    wait_for haproxy is_open "$port"
    peer 'haproxy (leastconn, maxconn 1)' "$pid,$behind"
}

start_gunicorn() {
    is_there gunicorn || return 0
    take_port
    start gunicorn gunicorn --workers "$workers" --chdir "$apps" --bind "127.0.0.1:$port" --timeout 120 wsgi:app
    wait_for gunicorn is_open "$port"
    peer 'gunicorn sync' "$pid"
}

start_puma() {
    is_there puma || return 0
    take_port
    start puma puma --silent -w "$workers" -t 1:1 -e none --dir "$apps" -b "tcp://127.0.0.1:$port"
    wait_for puma is_open "$port"
    peer 'puma -t 1:1' "$pid"
}

start_unicorn() {
    is_there unicorn || return 0
    take_port
    printf 'worker_processes %d\nworking_directory "%s"\ntimeout 120\nlisten "127.0.0.1:%d", backlog: 4096\n' \
        "$workers" "$apps" "$port" >"$folder/unicorn.rb"
    start unicorn unicorn -E none -c "$folder/unicorn.rb"
    wait_for unicorn is_open "$port"
    peer unicorn "$pid"
}

# start_pitchfork QUEUES QUEUES_PER_WORKER
start_pitchfork() {
    if [ -z "${BENCH_PITCHFORK:-}" ]; then
        echo "BENCH_PITCHFORK is not set: Pitchfork is left out" >&2
        return 0
    fi
    take_port
    local name=pitchfork-$1x$2
    printf 'worker_processes %d\ntimeout 120\nlisten "127.0.0.1:%d", backlog: 4096, queues: %d, queues_per_worker: %d\n' \
        "$workers" "$port" "$1" "$2" >"$folder/$name.rb"
    start "$name" ruby -I"$BENCH_PITCHFORK/lib" "$BENCH_PITCHFORK/exe/pitchfork" -E none -c "$folder/$name.rb" "$apps/config.ru"
    wait_for "$name" is_open "$port"
    peer "Pitchfork ${1}x$2" "$pid"
}

# start_weir_sockets NAME SETTINGS COMMAND..: workers of that command, each a server of its own, on Weir's sockets.
start_weir_sockets() {
    local name=$1 settings=$2 conf command
    shift 2
    take_port
    conf=weir$port
    command=$(printf '"%s", ' "$@")
    cat >"$folder/$conf.toml" <<TOML
data_dir = "$folder/$conf"
[console]
listen = "127.0.0.1:0"
[front]
listen = "127.0.0.1:0"
[[front.apps]]
name = "bench"
workers = $workers
mode = "sockets"
listen = "127.0.0.1:$port"
command = [$command]
$settings
TOML
    start "$conf" "$binaries/weir" up --only front --config "$folder/$conf.toml"
    wait_for "$conf" all_serve "$folder/$conf.toml"
    peer "$name" "$pid"
}

all_serve() {
    [ "$("$binaries/weir" workers list --json --config "$1" | grep -o '"state": *"serving"' | wc -l)" = "$workers" ]
}

# start_weir_selections SERVER SETTINGS COMMAND..: the ways to share connections among the workers of that command.
start_weir_selections() {
    local server=$1 settings=$2 word='environment = { BENCH_BUSY_WORD = "1" }'
    shift 2
    start_weir_sockets "$server, Weir kernel" "$settings" "$@"
    start_weir_sockets "$server, Weir kernel, busy word" "$settings"$'\n'"$word" "$@"
    start_weir_sockets "$server, Weir join-idle" "$settings"$'\n'"$word"$'\nselection = "join-idle"' "$@"
    start_weir_sockets "$server, Weir $((workers / 2)) queues, 2 each" \
        "$settings"$'\n'"queues = $((workers / 2))"$'\n'"queues_per_worker = 2" "$@"
}
