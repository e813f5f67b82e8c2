/* cut_state.h - inside the cut pass: what its files share. */
#pragma once
#include "plan/cut_borders.h"

/* What the ranks have of an activation. */
enum {
    HAS_COLUMNS, /* each some columns */
    HAS_WHOLE,   /* some whole rows, most often all */
    HAS_SUM,     /* rows that are still to be summed over the ranks: cut_sums.h */
    HAS_EXPERTS, /* expert rows, each those of its experts: cut_experts.h */
};

/* A window that was made of a weight or constant of the whole program. */
typedef struct window_entry {
    ref of, t;
    weight_range range;
} window_entry;

typedef struct rank_program {
    program *p;
    ref *part; /* [n_tensor of the whole program] its columns or expert rows of an activation, its partial sum; 0:
                    none */
    ref *base; /* [n_tensor] HAS_SUM: whole rows that come to the sum; 0: none */
    window_entry *windows; /* [n_window] */
    size_t n_window, cap_window;
} rank_program;

/* Vectors that come to a sum once it is made. */
enum { SUM_VECTORS = 4 };
typedef struct sum_vectors {
    int n;
    ref of[SUM_VECTORS];
} sum_vectors;

typedef struct cut {
    const cut_shape *s;
    bool (*takes)(dtype type);
    cut_borders *b;
    rank_program *rank;     /* [ranks] */
    uint8_t *has;           /* [n_tensor] HAS_* */
    uint64_t *at;           /* [n_tensor] HAS_WHOLE: ranks */
    sum_vectors *vectors;   /* [n_tensor] HAS_SUM */
    int32_t experts;        /* HAS_EXPERTS: all that there are */
    struct cut_coll *colls; /* [n_coll] */
    size_t n_coll, cap_coll;
} cut;

static inline int64_t cut_length(cut_range r) { return r.to - r.from; }

/* A tensor of the rank's program like t of the whole one, with these columns; `more` is added to its name, NULL: the
 * columns are. 0 on error. */
ref cut_part_like(program *p, ref t, const char *more, cut_range columns, err *e);
/* Columns of t on a rank, from its own part or from whole rows; 0 on error. Not of an empty range. */
ref cut_columns_of(cut *c, int rank, ref t, cut_range want, int16_t layer, err *e);
/* These rows and columns of weight or constant t on a rank, a window that is made once; 0 on error. */
ref cut_window(rank_program *to, ref t, weight_range range, err *e);
/* Adds a COLL_REDUCE for t to the list of collectives; goes_on: more is added to its result. */
int cut_add_reduce(cut *c, ref t, bool goes_on, err *e);
/* Whether t is for the caller, or a tap may ask for it. */
bool cut_is_result(const program *p, ref t);
