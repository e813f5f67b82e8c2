/* snapshot_worth.h - which snapshots are worth their memory: where slots are short, the one goes first that probably
 * saves the fewest tokens.
 *
 * All slots of a model have as many bytes, so tokens are compared. What a snapshot saves are the tokens after the one
 * before it, if a text comes that goes on there:
 *
 *     worth = tokens since the snapshot before * chance / texts since it was used last
 *
 * A text that comes back goes on where the one before it has ended; or after its prompt, with another answer, or with
 * one that is shortened, as chats with reasoning do; or it parts from the prompt. How many do is counted over the texts
 * that came. A snapshot is used by those that part from its text after it, but before the next one: that is its
 * chance. As long as nothing is known most go on from the end. Of a distance before the end of the prompt the chance
 * falls as 1/distance, so that snapshots stay at about doubling distances. Where texts have parted already it is 1.
 *
 * The chance that a text comes back at all falls with the texts that came since, as 1/age: no constant has to fit a
 * number of users.
 *
 * Where several steps are under way, snapshots that they write count as those that are kept, and one of them makes room
 * as well, for one that the same text writes later: then two steps write the same slot, in their order, after the step
 * that reads it. So as many tokens are saved as with one step at a time. */
#pragma once
#include "cache/prefix_tree.h"
#include "cache/text_state.h"

/* What is known of a snapshot. */
typedef struct snapshot_note {
    int64_t used;             /* snapshot_log.texts when a text went on from it, or made it */
    const cache_text *writer; /* the text whose step under way writes it, NULL: none; */
    int64_t to;               /* after so many tokens */
    /* of the last look: */
    int64_t at, before;  /* tokens up to it, -1: no snapshot; up to the one before */
    int64_t next, end;   /* up to the first one after it; to the last snapshot, or page, after it */
    int64_t asked;       /* of these the prompt */
    int32_t prev, after; /* slot of the one before, -1: none; how many follow it */
    bool lost;           /* pages between the two are gone */
} snapshot_note;

/* Where texts part: from the end of the one before, from its answer, or so many pages before that: 1, 2, 4, … */
enum { PART_END, PART_ANSWER, PART_PROMPT, PART_RANGES = PART_PROMPT + 16 };

struct snapshot_log {
    int64_t texts;             /* that have looked for a prefix */
    double parts[PART_RANGES]; /* shares of texts that part there */
    snapshot_note *note;       /* [slots + 1] the last one is of a snapshot that is planned */
};

/* For so many slots; negative: memory is short. */
int snapshot_log_open(snapshot_log **out, int32_t slots, err *e);
void snapshot_log_close(snapshot_log *l); /* NULL ok */

/* The slot of the kept snapshot that is worth the least; -1: none is kept. */
int32_t snapshot_least(prefix_tree *t);
/* Whether a snapshot of this text at position `to` would be worth more than the least one, *slot (kept, or of the text
 * itself and under way): it would take its place. */
bool snapshot_is_better(prefix_tree *t, const cache_text *text, int64_t to, int32_t *slot);
/* A text has come that begins as the nodes to this one, not as those after it; of a root: as none. */
void snapshot_text_came(prefix_tree *t, int32_t node);
/* The slot's snapshot was made, or used. */
void snapshot_used(prefix_tree *t, int32_t slot);
/* The next step of the text writes a snapshot there; text NULL: none that was to come will. */
void snapshot_comes(prefix_tree *t, int32_t slot, const cache_text *text, int64_t to);
/* A step that wrote a snapshot there has ended. False: a later one has its place. */
bool snapshot_came(prefix_tree *t, int32_t slot, const cache_text *text, int64_t to);
