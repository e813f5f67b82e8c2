#!/bin/sh
# lab.sh - a laboratory of networks on one machine, without root: a leader and nodes, each in a network namespace.
# README.md beside this says how to use it.
#
# Outside, this file makes user, mount, process and network namespaces and runs itself in them. When it ends, or is
# killed in any way, the kernel ends all processes inside and the namespaces with them: nothing is left to clean up.
#
#     eth0 of a node [tbf] - [tbf] pN - bridge                     rates alone: one bridge, in the kernel
#     eth0 of a node - pN - switch                                 delays alone
#     eth0 of a node [tbf] - [tbf] pN - bN - sN - wN - switch      both: a bridge each, so that what waits in the tbf
#                                                                  is not charged to the switch's socket
set -eu
here=$(cd "$(dirname "$0")" && pwd)
tools=${LAB_BUILD:-$here/../../build}/netlab

usage() {
    echo "usage: lab.sh [--nodes N] [--rate 100mbit] [--delay MS] [--jitter MS] [--loss PERCENT] [--switch]" >&2
    echo "              [--node COMMAND [--ready TEXT]] -- COMMAND...    (tools/netlab/README.md says more)" >&2
    exit 2
}
die() { echo "lab: error: $*" >&2; exit 1; }
mac() { printf 02:00:00:00:00:%02x "$1"; }
on() { n=$1; shift; nsenter --net="$LAB/ns/$n" "$@"; }

start() { # node
    export LAB_NODE="$1" LAB_ADDRESS="10.77.0.$((100 + $1))"
    setsid nsenter --net="$LAB/ns/$1" sh -c "exec $LAB_COMMAND" >>"$LAB/$1.log" 2>&1 </dev/null &
    echo $! >"$LAB/$1.pid"
}

await() { # node text
    for _ in $(seq 600); do
        grep -q -- "$2" "$LAB/$1.log" && return
        kill -0 "$(cat "$LAB/$1.pid")" 2>/dev/null || break
        sleep 0.1
    done
    cat "$LAB/$1.log" >&2
    die "node $1 did not say \"$2\""
}

# For commands inside.
case ${1-} in
on | start | await) "$@"; exit ;;
kill) kill "-${3-KILL}" "$(cat "$LAB/$2.pid")"; exit ;;
link) shift; echo "$*" >"$LAB/switch"; exit ;;
esac

nodes=2 rate='' delay='' jitter='' loss='' switch='' LAB_COMMAND='' ready='' inside='' used=0
parse() {
    while [ $# -gt 0 ]; do
        used=$((used + 1))
        case $1 in
        --) return ;;
        --inside) inside=1 ;;
        --switch) switch=1 ;;
        --?*)
            [ $# -gt 1 ] || usage
            case $1 in
            --nodes) nodes=$2 ;; --rate) rate=$2 ;; --node) LAB_COMMAND=$2 ;; --ready) ready=$2 ;;
            --delay) delay=${2%ms} switch=1 ;; --jitter) jitter=${2%ms} switch=1 ;; --loss) loss=${2%\%} switch=1 ;;
            *) usage ;;
            esac
            used=$((used + 1))
            shift ;;
        *) usage ;;
        esac
        shift
    done
    usage
}
parse "$@"
[ $# -gt $used ] && [ "$nodes" -ge 1 ] && [ "$nodes" -le 32 ] || usage

if [ -z "$inside" ]; then
    skip() { echo "skipped: no laboratory of networks here: $*"; exit 0; }
    for tool in unshare nsenter setpriv ip tc; do
        command -v $tool >/dev/null || skip "$tool is absent (packages util-linux, iproute2)"
    done
    [ -x "$tools/switch" ] || make -s -C "$here/../.." netlab-tools >&2
    mkdir -p "$tools/lab"
    export LAB="$tools/lab" # a folder in memory is put over it, in the laboratory only
    box='setpriv --pdeathsig KILL unshare -Urnmpf --kill-child'
    try='mount -t tmpfs lab "$LAB" && ip link add name a type veth peer name b && ip link add name c type bridge &&
        tc qdisc add dev a root tbf rate 1mbit burst 4kb latency 400ms'
    why=$($box sh -c "$try" 2>&1) || skip "$(echo "$why" | head -1)"
    exec 3<&0
    $box sh "$0" --inside "$@" <&3 3<&- &
    lab=$!
    trap 'kill -KILL $lab 2>/dev/null; exit 130' INT TERM HUP
    status=0
    wait $lab || status=$?
    exit $status
fi

shift $used
mount -t tmpfs lab "$LAB"
mount -t proc proc /proc 2>/dev/null || : # a container may forbid it; then ps shows outer numbers of processes
mkdir "$LAB/ns"
export LAB LAB_COMMAND LAB_NODES="$nodes" PATH="$here:$tools:$PATH"

# What goes in a millisecond may go at once; no frame is more than half of that.
limit() { # interface, how to get to it
    link=$1
    shift
    [ -n "$rate" ] || return 0
    "$@" tc qdisc add dev "$link" root tbf rate "$rate" burst "$burst" latency 400ms
    "$@" ip link set dev "$link" gso_max_size "$((burst < 131072 ? burst / 2 : 65536))"
}

burst=$(echo "$rate" | awk '/gbit/ { u = 1e9 } /mbit/ { u = 1e6 } /kbit/ { u = 1e3 }
    { b = $0 * u / 8000; printf "%d", b < 3200 ? 3200 : b }')
[ -n "$switch" ] || { ip link add name br type bridge; ip link set dev br up; }
ports=''
for i in $(seq 0 "$nodes"); do
    touch "$LAB/ns/$i"
    unshare --net="$LAB/ns/$i" true
    ip link add name "p$i" type veth peer name eth0 address "$(mac "$i")"
    ip link set dev "p$i" up addrgenmode none
    [ -z "$switch" ] || switch --plain eth0
    ip link set dev eth0 netns "$LAB/ns/$i"
    if [ -n "$switch" ] && [ -z "$rate" ]; then ports="$ports p$i"; continue; fi
    bridge=br
    if [ -n "$switch" ]; then
        bridge=b$i ports="$ports w$i"
        ip link add name "$bridge" type bridge
        ip link add name "s$i" type veth peer name "w$i"
        for l in "$bridge" "s$i" "w$i"; do ip link set dev "$l" up addrgenmode none; done
        ip link set dev "s$i" master "$bridge"
    fi
    ip link set dev "p$i" master "$bridge"
    limit "p$i"
done
for i in $(seq 0 "$nodes"); do
    {
        echo "link set lo up"
        echo "link set eth0 up addrgenmode none"
        echo "addr add 10.77.0.$((100 + i))/24 dev eth0"
        for k in $(seq 0 "$nodes"); do
            [ "$k" -eq "$i" ] || echo "neigh add 10.77.0.$((100 + k)) lladdr $(mac "$k") dev eth0 nud permanent"
        done
    } | on "$i" ip -batch -
    limit eth0 on "$i"
    # The host's default may be bbr, whose pacing answers small questions late.
    on "$i" sh -c 'cd /proc/sys/net/ipv4; echo cubic >tcp_congestion_control || echo reno >tcp_congestion_control' \
        2>/dev/null || :
done
if [ -n "$switch" ]; then
    mkfifo "$LAB/switch"
    setsid switch "$LAB/switch" $ports >>"$LAB/switch.log" 2>&1 &
    for what in "delay $delay" "jitter $jitter" "loss $loss"; do
        [ -z "${what#* }" ] || echo "$what" >"$LAB/switch"
    done
fi
if [ -n "$LAB_COMMAND" ]; then
    for i in $(seq "$nodes"); do start "$i"; done
    [ -z "$ready" ] || for i in $(seq "$nodes"); do await "$i" "$ready"; done
fi
status=0
on 0 "$@" || status=$?
[ $status -eq 0 ] || tail -n 5 "$LAB"/*.log >&2 2>/dev/null || :
exit $status
