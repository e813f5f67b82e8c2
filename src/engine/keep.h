/* keep.h - pages on disk (engine_keep_folder, engine_keep_file), on the engine thread. Where none are kept these
 * functions do nothing. */
#pragma once
#include "engine/page_store.h"

typedef struct engine engine;
typedef struct session session;
typedef struct page_keep page_keep;

typedef enum { KEEP_NOTHING, KEEP_LATER, KEEP_SOME } keep_result;

void keep_close(engine *g); /* before the plan goes; some pages that are not on disk yet are written */

/* The name has got its pages: they are to be written. */
void keep_note(engine *g, int32_t name);
/* Between steps: hands pages to the store, if it has room. */
void keep_write(engine *g);
/* A text has ended with this name, which stays until another one ends: engine_session_save. */
void keep_remember(engine *g, int32_t name);

/* Names whose pages were read from disk, and handed to the store. */
void keep_count(const engine *g, uint64_t *read, uint64_t *written);

/* Loads the next pages of a session, those before number `most`, that are on disk. KEEP_LATER: the session has to wait,
 * as enough was loaded for this step, or steps are under way: then no more are sent while keep_waits. KEEP_SOME: there
 * are more pages than before, which nobody else takes before keep_fetched. */
keep_result keep_fetch(engine *g, session *s, int64_t most);
void keep_fetched(engine *g);
bool keep_waits(engine *g);
