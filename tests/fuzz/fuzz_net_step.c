/* fuzz_net_step.c - steps that a leader sends: whatever is read can go to a device. The input is up to four messages,
 * each after its length (2 bytes). */
#include "tests/step_rig.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static program *p;
    static step_limits l;
    step_reader *r;
    cursor c = cursor_of(span_of(data, n));
    if (!p) {
        p = step_program();
        l = step_rig_limits(p);
    }
    if (step_reader_open(&r, p, &l, 2, NULL)) abort();
    for (int i = 0, rc = OK; i < 4 && !rc && cursor_left(&c); i++) {
        const step *st;
        const uint64_t bytes = cursor_u16(&c);
        rc = step_read(r, cursor_take(&c, bytes < cursor_left(&c) ? bytes : cursor_left(&c)), &st, NULL);
        if (!rc && step_fault(st, &l, p)) abort();
    }
    step_reader_close(r);
    return 0;
}
