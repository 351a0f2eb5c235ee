#!/bin/bash
# Runs an MPI program on two hosts that are network namespaces of this machine: each has its own address and name, its
# half of the processors, and a link to the other whose rate is limited. For Linux, as root, with Open MPI and iproute2.
#
#   tests/mpi/two_hosts.sh [-n PROCESSES] [-r RATE] [-c FILE] PROGRAM [ARGUMENT]...
#
#   -n  processes, half of them on each host                  [default: 2]
#   -r  rate of the link in each direction, as `tc` reads it  [default: 200mbit]
#   -c  cuts the link once this file exists: what is sent is lost, and nobody is told
#
# Exits as the program does. Whatever happens, the namespaces are gone afterwards.
set -euo pipefail

processes=2
rate=200mbit
cut=
while getopts n:r:c: option; do
    case $option in
        n) processes=$OPTARG ;;
        r) rate=$OPTARG ;;
        c) cut=$OPTARG ;;
        *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || { grep '^#  ' "$0" >&2; exit 2; }

# Names that no other run on this machine has.
id=$$
a=trainyard-$id-a b=trainyard-$id-b
folder=$(mktemp -d)
tear_down() {
    [ -z "${cutter:-}" ] || kill "$cutter" 2>/dev/null || true
    for host in "$a" "$b"; do
        ip netns pids "$host" 2>/dev/null | xargs --no-run-if-empty kill -KILL 2>/dev/null || true
        ip netns delete "$host" 2>/dev/null || true
    done
    rm -rf "$folder"
}
trap tear_down EXIT

ip netns add "$a"
ip netns add "$b"
ip link add eth0 netns "$a" type veth peer name eth0 netns "$b"
number=1
for host in "$a" "$b"; do
    ip -n "$host" address add 10.77.7.$number/24 dev eth0
    ip -n "$host" link set lo up
    ip -n "$host" link set eth0 up
    # What is sent faster than the rate waits in a queue as deep as that of a usual switch.
    ip netns exec "$host" tc qdisc add dev eth0 root tbf rate "$rate" burst 256kb latency 50ms
    number=$((number + 1))
done

# The halves of the processors; a single one is shared.
cores=$(nproc)
half=$((cores / 2))
first=0-$((half > 0 ? half - 1 : 0))
second=$((half < cores ? half : 0))-$((cores - 1))

# How a program starts on a host: in its namespace, under its name, on its processors.
cat > "$folder/on_host" <<SCRIPT
#!/bin/bash
case \$1 in
    10.77.7.1) host=$a cores=$first ;;
    *) host=$b cores=$second ;;
esac
shift
exec ip netns exec "\$host" unshare --uts sh -c "hostname \$host; exec taskset --cpu-list \$cores sh -c '\$*'"
SCRIPT
chmod +x "$folder/on_host"

# A queue that holds nothing drops all that is sent.
cut_link() {
    until [ -e "$cut" ]; do sleep 0.05; done
    for host in "$a" "$b"; do
        ip netns exec "$host" tc qdisc replace dev eth0 root pfifo limit 0
    done
}
if [ -n "$cut" ]; then
    cut_link &
    cutter=$!
fi

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
slots=$(((processes + 1) / 2))
ip netns exec "$a" unshare --uts sh -c "hostname $a; exec taskset --cpu-list $first \"\$@\"" sh \
    mpirun -np "$processes" --host 10.77.7.1:$slots,10.77.7.2:$slots --bind-to none --timeout 1800 \
    --mca plm_rsh_agent "$folder/on_host" \
    --mca oob_tcp_if_include eth0 --mca btl_tcp_if_include eth0 --mca btl tcp,self,vader \
    --mca btl_vader_single_copy_mechanism none \
    "$@"
