/* switch.c - the laboratory's switch: delay, jitter, loss and cuts between interfaces, changed while it runs.
 *
 * Usage: switch FIFO IF…        joins the interfaces as ports 0, 1, …; reads commands from FIFO, one a line
 *        switch --plain IF…     turns off their offloads (checksums, large frames), as frames of the switch need it
 *
 * A frame for the Ethernet address 02:00:00:00:00:NN leaves at port NN; others vanish. Commands end in the ports they
 * are for: none (all), one (its links), or two (the link between them):
 *
 *     delay MS …   jitter MS …   loss PERCENT …     a frame takes delay + 0 … jitter ms, one way, or is lost
 *     cut …   join …                                what is cut swallows all frames and tells nobody
 *     show                                          prints what happened to frames so far, and how late the latest was
 *
 * Frames of a link keep their order under jitter, as in a queue. Rates are the kernel's business (lab.sh). The kernel
 * writes incoming frames into a ring in shared memory, so that none is lost while the switch waits for a processor. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    PORTS_MAX = 64,
    RING_FRAMES = 2048,
    RING_FRAME = 2048,
    FRAME_MAX = 1600,
    WAITING_MAX = 1 << 16, /* 500 Mbit/s of full frames for 1.5 s */
};

typedef struct path {     /* from one port to another */
    double delay, jitter; /* ns */
    double loss;          /* 0 … 1 */
    bool cut;
    uint64_t last; /* when the latest frame is due */
} path;

typedef struct port {
    int fd;
    uint8_t *ring;
    unsigned at; /* next frame of the ring */
} port;

typedef struct frame {
    uint64_t due, number; /* number: frames that are due together leave in the order of their coming */
    int to, size;
    uint8_t bytes[FRAME_MAX];
} frame;

static path paths[PORTS_MAX][PORTS_MAX];
static port ports[PORTS_MAX];
static int n_port;
static frame *frames;
static frame *heap[WAITING_MAX], *spare[WAITING_MAX]; /* heap: the one due first on top */
static int n_heap, n_spare = WAITING_MAX;
static struct {
    unsigned long long taken, lost, cut, full, late; /* frames; ns */
} told;

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* 0 … 1 */
static double chance(void)
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (double)(state >> 11) * 0x1p-53;
}

static bool is_before(const frame *a, const frame *b)
{
    return a->due != b->due ? a->due < b->due : a->number < b->number;
}

static void heap_push(frame *f)
{
    int i = n_heap++;
    for (; i && is_before(f, heap[(i - 1) / 2]); i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
    heap[i] = f;
}

static frame *heap_pop(void)
{
    frame *top = heap[0], *f = heap[--n_heap];
    int i = 0;
    for (int k; (k = 2 * i + 1) < n_heap; i = k) {
        if (k + 1 < n_heap && is_before(heap[k + 1], heap[k])) k++;
        if (!is_before(heap[k], f)) break;
        heap[i] = heap[k];
    }
    heap[i] = f;
    return top;
}

static void frame_take(int from, const uint8_t *bytes, int size)
{
    static const uint8_t ours[5] = {2};
    int to = bytes[5];
    if (size > FRAME_MAX || memcmp(bytes, ours, 5) || to >= n_port || to == from) return;
    path *p = &paths[from][to];
    told.taken++;
    if (p->cut) told.cut++;
    else if (p->loss > 0 && chance() < p->loss) told.lost++;
    else if (n_spare == 0) told.full++;
    else {
        frame *f = spare[--n_spare];
        uint64_t due = now_ns() + (uint64_t)(p->delay + p->jitter * chance());
        *f = (frame){.due = due > p->last ? due : p->last, .number = told.taken, .to = to, .size = size};
        p->last = f->due;
        memcpy(f->bytes, bytes, (size_t)size);
        heap_push(f);
    }
}

static void port_read(int from)
{
    port *p = &ports[from];
    for (;; p->at = (p->at + 1) % RING_FRAMES) {
        struct tpacket2_hdr *h = (void *)(p->ring + (size_t)p->at * RING_FRAME);
        if (!(__atomic_load_n(&h->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER)) return;
        frame_take(from, (uint8_t *)h + h->tp_mac, (int)h->tp_snaplen);
        __atomic_store_n(&h->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
    }
}

/* Sends what is due; returns the ns until the next frame is, or -1. */
static int64_t frames_send(void)
{
    while (n_heap) {
        uint64_t now = now_ns();
        if (heap[0]->due > now) return (int64_t)(heap[0]->due - now);
        frame *f = heap_pop();
        if (now - f->due > told.late) told.late = now - f->due;
        if (send(ports[f->to].fd, f->bytes, (size_t)f->size, MSG_DONTWAIT) < 0) told.full++;
        spare[n_spare++] = f;
    }
    return -1;
}

enum { DELAY, JITTER, LOSS, CUT, JOIN, SHOW, N_COMMAND };
static const char *const command_names[N_COMMAND] = {"delay", "jitter", "loss", "cut", "join", "show"};

static void path_set(path *p, int command, double value)
{
    switch (command) {
    case DELAY: p->delay = value * 1e6; break;
    case JITTER: p->jitter = value * 1e6; break;
    case LOSS: p->loss = value / 100; break;
    default: p->cut = command == CUT;
    }
}

static void command_do(char *line)
{
    char *word[4] = {0};
    int n = 0, command = 0;
    while (n < 4 && (word[n] = strtok_r(n ? NULL : line, " \t", &line))) n++;
    if (n == 0) return;
    while (command < N_COMMAND && strcmp(word[0], command_names[command]) != 0) command++;
    if (command == N_COMMAND) {
        fprintf(stderr, "switch: \"%s\" is none of delay, jitter, loss, cut, join, show\n", word[0]);
        return;
    }
    if (command == SHOW) {
        printf("frames %llu, lost %llu, cut %llu, no room %llu, latest by %.3f ms\n", told.taken, told.lost, told.cut,
               told.full, (double)told.late * 1e-6);
        fflush(stdout);
        return;
    }
    int at = command <= LOSS ? 2 : 1; /* of the first port */
    double value = command <= LOSS && n > 1 ? strtod(word[1], NULL) : 0;
    int a = n > at ? atoi(word[at]) : -1, b = n > at + 1 ? atoi(word[at + 1]) : -1;
    for (int i = 0; i < n_port; i++) {
        for (int k = 0; k < n_port; k++) {
            if ((a < 0 || i == a || k == a) && (b < 0 || i == b || k == b)) path_set(&paths[i][k], command, value);
        }
    }
}

static void fifo_read(int fd)
{
    static char text[1024];
    static size_t n;
    ssize_t got = read(fd, text + n, sizeof text - 1 - n);
    if (got <= 0) return;
    n += (size_t)got;
    text[n] = 0;
    char *line = text;
    for (char *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = 0;
        command_do(line);
    }
    n = (size_t)(text + n - line);
    if (n == sizeof text - 1) n = 0; /* no command is that long */
    memmove(text, line, n);
}

static int port_open(port *p, const char *name)
{
    int version = TPACKET_V2, on = 1;
    struct tpacket_req size = {.tp_block_size = RING_FRAME * 32,
                               .tp_block_nr = RING_FRAMES / 32,
                               .tp_frame_size = RING_FRAME,
                               .tp_frame_nr = RING_FRAMES};
    struct sockaddr_ll at = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
    at.sll_ifindex = (int)if_nametoindex(name);
    p->fd = socket(AF_PACKET, SOCK_RAW, 0);
    if (p->fd < 0 || setsockopt(p->fd, SOL_PACKET, PACKET_VERSION, &version, sizeof version) ||
        setsockopt(p->fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on) ||
        setsockopt(p->fd, SOL_PACKET, PACKET_RX_RING, &size, sizeof size))
        return -1;
    p->ring = mmap(NULL, (size_t)RING_FRAMES * RING_FRAME, PROT_READ | PROT_WRITE, MAP_SHARED, p->fd, 0);
    return p->ring == MAP_FAILED ? -1 : bind(p->fd, (struct sockaddr *)&at, sizeof at);
}

static int offloads_end(const char *name)
{
    static const uint32_t what[] = {ETHTOOL_STSO, ETHTOOL_SGSO, ETHTOOL_SGRO, ETHTOOL_STXCSUM};
    int fd = socket(AF_INET, SOCK_DGRAM, 0), bad = fd < 0;
    for (size_t i = 0; i < sizeof what / sizeof *what && !bad; i++) {
        struct ethtool_value v = {.cmd = what[i]};
        struct ifreq r = {.ifr_data = (void *)&v};
        snprintf(r.ifr_name, sizeof r.ifr_name, "%s", name);
        bad = ioctl(fd, SIOCETHTOOL, &r) < 0;
    }
    close(fd);
    return bad;
}

static int tell_errno(const char *name)
{
    fprintf(stderr, "switch: %s: %s\n", name, strerror(errno));
    return 1;
}

int main(int argc, char **argv)
{
    if (argc < 3 || argc > 2 + PORTS_MAX) {
        fprintf(stderr, "usage: switch FIFO IF... | switch --plain IF...\n");
        return 2;
    }
    bool plain = strcmp(argv[1], "--plain") == 0;
    struct pollfd wait[PORTS_MAX + 1];
    for (int i = 2; i < argc; i++) {
        if (plain ? offloads_end(argv[i]) : port_open(&ports[n_port], argv[i])) return tell_errno(argv[i]);
        wait[n_port] = (struct pollfd){.fd = ports[n_port].fd, .events = POLLIN};
        n_port++;
    }
    if (plain) return 0;
    int fifo = open(argv[1], O_RDWR | O_NONBLOCK); /* also written: no end of file when a writer leaves */
    frames = calloc(WAITING_MAX, sizeof *frames);
    if (fifo < 0 || !frames) return tell_errno(argv[1]);
    wait[n_port] = (struct pollfd){.fd = fifo, .events = POLLIN};
    for (int i = 0; i < WAITING_MAX; i++) spare[i] = &frames[WAITING_MAX - 1 - i];
    prctl(PR_SET_TIMERSLACK, 1);
    for (;;) {
        int64_t ns = frames_send();
        struct timespec left = {ns / 1000000000, ns % 1000000000};
        if (ppoll(wait, (nfds_t)n_port + 1, ns < 0 ? NULL : &left, NULL) < 0 && errno != EINTR)
            return tell_errno("ppoll");
        for (int i = 0; i < n_port; i++) {
            if (wait[i].revents) port_read(i);
        }
        if (wait[n_port].revents) fifo_read(fifo);
    }
}
