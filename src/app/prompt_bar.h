/* prompt_bar.h - a bar on the terminal while a prompt is read that takes longer than a second. */
#pragma once
#include "engine/engine.h"

/* Called after each step of the only query of an engine, until its first token; `began`: clock_now when it was added.
 * log_progress_end wipes the bar. */
void prompt_bar_show(engine *g, double began);
