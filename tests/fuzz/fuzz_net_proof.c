/* fuzz_net_proof.c - the answer to a request for weights, with its proof. The input: the length of a request (2 bytes),
 * the request, bytes of an answer; where none are left, the right answer with its first byte changed. */
#include "base/hash_tree.h"
#include "base/mem.h"
#include "net/piece_proof.h"

#include <stdlib.h>

enum { TENSORS = 2, BYTES = 5000 };
static uint8_t bytes[TENSORS][BYTES], room[TREE_BYTES], got[PIECE_BYTES];

static uint64_t bytes_of(const void *ctx, uint32_t i) { return (void)ctx, (void)i, BYTES; }

/* As piece_prove, without a checkpoint. */
static void prove(const piece_ask *a, uint8_t *proof)
{
    for (uint32_t i = 0, next; i < a->n; i = next) {
        bool want[TREE_LEAVES] = {false};
        for (next = i; next < a->n && a->run[next].entry == a->run[i].entry; next++)
            tree_want(want, a->run[next].at, a->run[next].n);
        tree_prove(want, bytes[a->run[i].entry], BYTES, proof);
        proof += tree_proof_bytes(want, BYTES);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static piece_ask a;
    static uint8_t root[TENSORS][SHA256_BYTES];
    listed tensor[TENSORS];
    catalogue told = {.has_trees = true, .tensor = tensor, .n = TENSORS};
    for (int t = 0; t < TENSORS; t++) {
        for (int i = 0; i < BYTES; i++) bytes[t][i] = (uint8_t)(i * 7 + t);
        tree_root(bytes[t], BYTES, root[t]);
        tensor[t] = (listed){.t = {.name = "w", .bytes = BYTES}, .root = root[t]};
    }
    cursor c = cursor_of(span_of(data, n));
    const uint16_t head = cursor_u16(&c);
    const span said = cursor_take(&c, head);
    cursor ask = cursor_of(said);
    if (c.bad || piece_ask_read(&a, &ask, TENSORS, bytes_of, NULL, NULL) || !piece_proof_fits(&a)) return 0;
    const uint32_t size = piece_proof_bytes(&a, bytes_of, NULL);
    if (size > PROOF_MAX) abort();
    const span answer = cursor_take(&c, cursor_left(&c));
    const bool right = piece_proof_check(&a, &told, answer, room, got, NULL) == OK;
    uint8_t *proof = mem_alloc(size);
    if (!proof) return 0;
    prove(&a, proof);
    if (right && !span_eq(answer, span_of(proof, size))) abort(); /* nobody can make another one */
    if (piece_proof_check(&a, &told, span_of(proof, size), room, got, NULL)) abort();
    proof[n % size] ^= 1;
    if (!piece_proof_check(&a, &told, span_of(proof, size), room, got, NULL)) abort();
    mem_free(proof);
    return 0;
}
