/* import_write.h - a model_spec.json as the INI text of a spec. */
#pragma once
#include "base/buf.h"
#include "io/ckpt.h"

/* Facts beside the text of a model_spec.json. */
typedef struct import_place {
    const char *dir;      /* folder of relative file names in the spec */
    const char *model;    /* path to write instead of the files it names; NULL: those */
    const ckpt *weights;  /* NULL: not looked at; else norms that have a bias are layer norms, whatever the spec says */
    const char *name;     /* [model] name; NULL: none */
    const char *generate; /* lines to add to [generate], "" none */
    const char *settings; /* sections to append: [runtime], [serve]; "" none */
    const char *remarks;  /* comment lines for the head of the file; "" none */
} import_place;

/* Appends the INI text for a model_spec.json. `what` names it in messages. */
int import_model_spec(span text, const char *what, const import_place *place, buf *out, err *e);
