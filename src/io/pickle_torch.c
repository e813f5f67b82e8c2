/* pickle_torch.c - see pickle_torch.h. Source of the argument lists: torch/_utils.py and torch/serialization.py. */
#include "io/pickle_torch.h"

#include "base/mem.h"

#include <string.h>

typedef enum {
    ROLE_DICT,      /* OrderedDict(), OrderedDict(pairs) */
    ROLE_SET,       /* set(items) */
    ROLE_SIZE,      /* torch.Size(tuple) */
    ROLE_OPAQUE,    /* torch.device(...), bytes in old protocols: kept, never looked into */
    ROLE_STORAGE,   /* a storage class: only inside persistent ids */
    ROLE_DTYPE,     /* torch.float16: a value */
    ROLE_TYPE,      /* torch.Tensor, Parameter: only as an argument */
    ROLE_TENSOR,    /* (storage, offset, size, stride[, requires_grad, hooks[, metadata]]) */
    ROLE_TENSOR_V3, /* the same with an untyped storage, and the dtype as seventh */
    ROLE_PARAMETER, /* (tensor, requires_grad, hooks[, state]) */
    ROLE_TYPED,     /* (function, type, arguments, state) */
} torch_role;

typedef struct torch_global {
    const char *module, *name;
    torch_role role;
    dtype type; /* of storages and dtypes; DTYPE_NONE: an untyped storage, or a type that is not supported */
} torch_global;

#define STORAGES(module)                                                                                               \
    {module, "FloatStorage", ROLE_STORAGE, DTYPE_F32}, {module, "DoubleStorage", ROLE_STORAGE, DTYPE_F64},             \
        {module, "HalfStorage", ROLE_STORAGE, DTYPE_F16}, {module, "BFloat16Storage", ROLE_STORAGE, DTYPE_BF16},       \
        {module, "LongStorage", ROLE_STORAGE, DTYPE_I64}, {module, "IntStorage", ROLE_STORAGE, DTYPE_I32},             \
        {module, "ShortStorage", ROLE_STORAGE, DTYPE_I16}, {module, "CharStorage", ROLE_STORAGE, DTYPE_I8},            \
        {module, "ByteStorage", ROLE_STORAGE, DTYPE_U8},                                                               \
    {                                                                                                                  \
        module, "BoolStorage", ROLE_STORAGE, DTYPE_BOOL                                                                \
    }

static const torch_global globals[] = {
    {"collections", "OrderedDict", ROLE_DICT, DTYPE_NONE},
    {"builtins", "set", ROLE_SET, DTYPE_NONE},
    {"__builtin__", "set", ROLE_SET, DTYPE_NONE},
    {"torch", "Size", ROLE_SIZE, DTYPE_NONE},
    {"torch", "device", ROLE_OPAQUE, DTYPE_NONE},
    {"_codecs", "encode", ROLE_OPAQUE, DTYPE_NONE},
    STORAGES("torch"),
    STORAGES("torch.cuda"),
    {"torch", "UntypedStorage", ROLE_STORAGE, DTYPE_NONE},
    {"torch.storage", "UntypedStorage", ROLE_STORAGE, DTYPE_NONE},
    {"torch", "float32", ROLE_DTYPE, DTYPE_F32},
    {"torch", "float64", ROLE_DTYPE, DTYPE_F64},
    {"torch", "float16", ROLE_DTYPE, DTYPE_F16},
    {"torch", "bfloat16", ROLE_DTYPE, DTYPE_BF16},
    {"torch", "float8_e4m3fn", ROLE_DTYPE, DTYPE_F8_E4M3},
    {"torch", "float8_e5m2", ROLE_DTYPE, DTYPE_F8_E5M2},
    {"torch", "int64", ROLE_DTYPE, DTYPE_I64},
    {"torch", "int32", ROLE_DTYPE, DTYPE_I32},
    {"torch", "int16", ROLE_DTYPE, DTYPE_I16},
    {"torch", "int8", ROLE_DTYPE, DTYPE_I8},
    {"torch", "uint64", ROLE_DTYPE, DTYPE_U64},
    {"torch", "uint32", ROLE_DTYPE, DTYPE_U32},
    {"torch", "uint16", ROLE_DTYPE, DTYPE_U16},
    {"torch", "uint8", ROLE_DTYPE, DTYPE_U8},
    {"torch", "bool", ROLE_DTYPE, DTYPE_BOOL},
    {"torch", "Tensor", ROLE_TYPE, DTYPE_NONE},
    {"torch.nn.parameter", "Parameter", ROLE_TYPE, DTYPE_NONE},
    {"torch._utils", "_rebuild_tensor", ROLE_TENSOR, DTYPE_NONE},
    {"torch._utils", "_rebuild_tensor_v2", ROLE_TENSOR, DTYPE_NONE},
    {"torch._utils", "_rebuild_tensor_v3", ROLE_TENSOR_V3, DTYPE_NONE},
    {"torch._utils", "_rebuild_parameter", ROLE_PARAMETER, DTYPE_NONE},
    {"torch._utils", "_rebuild_parameter_with_state", ROLE_PARAMETER, DTYPE_NONE},
    {"torch._tensor", "_rebuild_from_type_v2", ROLE_TYPED, DTYPE_NONE},
};
enum { GLOBALS = sizeof globals / sizeof *globals };

static int refuse_tensor(err *e, const char *why) { return err_set(e, ERR_FORMAT, "pickle: %s", why); }
static int find_global(void *self, span module, span name, int64_t *number, err *e)
{
    (void)self;
    for (int i = 0; i < GLOBALS; i++)
        if (span_is(module, globals[i].module) && span_is(name, globals[i].name)) {
            *number = i;
            return OK;
        }
    bool class_of_model = span_starts(module, "torch.nn.modules") || span_starts(module, "transformers.");
    return err_set(e, ERR_FORMAT,
                   "the pickle asks for \"%.*s.%.*s\", which a state dict does not need; refused, nothing was run%s",
                   module.n < 100 ? (int)module.n : 100, (const char *)module.p, name.n < 100 ? (int)name.n : 100,
                   (const char *)name.p, class_of_model ? " (save model.state_dict(), not the model)" : "");
}

/* ---- arguments */

static bool is_object(const pickle *p, pv v, int kind)
{
    return pickle_at(p, v)->kind == PV_OBJECT && pickle_at(p, v)->i == kind;
}

static const torch_global *global_of(const pickle *p, pv v)
{
    return pickle_at(p, v)->kind == PV_GLOBAL ? &globals[pickle_at(p, v)->i] : NULL;
}

static bool get_size(const pickle *p, pv v, uint64_t *out)
{
    const pickle_value *x = pickle_at(p, v);
    *out = (uint64_t)x->i;
    return x->kind == PV_INT && x->i >= 0;
}

/* A tuple (or torch.Size) of at most SHAPE_MAX sizes. */
static bool get_sizes(const pickle *p, pv v, int *n, int64_t *out)
{
    const pickle_value *x = pickle_at(p, v);
    if ((x->kind != PV_TUPLE && x->kind != PV_LIST) || x->n > SHAPE_MAX) return false;
    *n = (int)x->n;
    for (uint32_t i = 0; i < x->n; i++) {
        uint64_t size;
        if (!get_size(p, x->item[i], &size)) return false;
        out[i] = (int64_t)size;
    }
    return true;
}

static int new_object(pickle *p, int kind, const void *object, size_t bytes, pv *result, err *e)
{
    void *copy = arena_alloc(&p->mem, bytes);
    if (!copy) return err_memory(e, NULL);
    if (bytes) memcpy(copy, object, bytes);
    return pickle_new(p, (pickle_value){.kind = PV_OBJECT, .i = kind, .object = copy}, result) ? OK
                                                                                               : err_memory(e, NULL);
}

/* ---- tensors */

/* The last element must lie in the storage: offset + sum of (dim - 1) * stride < count. */
static bool fits_storage(const torch_tensor *t, uint64_t count)
{
    uint64_t last = t->offset, elements;
    if (!shape_count(&t->dims, &elements)) return false;
    if (elements == 0) return t->offset <= count;
    for (int i = 0; i < t->dims.rank; i++) {
        uint64_t reach;
        if (!mem_mul((uint64_t)t->dims.dim[i] - 1, (uint64_t)t->stride[i], &reach) || !mem_add(last, reach, &last))
            return false;
    }
    return last < count;
}

static int make_tensor(pickle *p, const pickle_value *a, torch_role role, pv *result, err *e)
{
    torch_tensor t = {0};
    int strides;
    uint32_t least = role == ROLE_TENSOR_V3 ? 7 : 4, most = role == ROLE_TENSOR_V3 ? 8 : 7;
    if (a->n < least || a->n > most) return refuse_tensor(e, "a tensor with a wrong number of arguments");
    if (!is_object(p, a->item[0], TORCH_STORAGE)) return refuse_tensor(e, "a tensor whose storage is not one");
    t.storage = *(const torch_storage *)pickle_at(p, a->item[0])->object;
    t.type = t.storage.type;
    if (!get_size(p, a->item[1], &t.offset)) return refuse_tensor(e, "a tensor with a negative offset");
    if (!get_sizes(p, a->item[2], &t.dims.rank, t.dims.dim))
        return refuse_tensor(e, "a tensor with an impossible shape");
    if (!get_sizes(p, a->item[3], &strides, t.stride) || strides != t.dims.rank)
        return refuse_tensor(e, "a tensor with impossible strides");
    uint64_t count = t.storage.count;
    if (role == ROLE_TENSOR_V3) {
        const torch_global *g = global_of(p, a->item[6]);
        if (!g || g->role != ROLE_DTYPE || !t.storage.untyped) return refuse_tensor(e, "a tensor without a type");
        t.type = g->type;
        count /= dtype_info[t.type].bytes;
    }
    if (!fits_storage(&t, count)) return refuse_tensor(e, "a tensor that reaches beyond its storage");
    return new_object(p, TORCH_TENSOR, &t, sizeof t, result, e);
}

/* Parameters are their tensors. */
static int make_parameter(pickle *p, const pickle_value *a, pv *result, err *e)
{
    if (a->n < 3 || a->n > 4 || !is_object(p, a->item[0], TORCH_TENSOR))
        return refuse_tensor(e, "a parameter that is not a tensor");
    *result = a->item[0];
    return OK;
}

static int call_role(pickle *p, torch_role role, const pickle_value *a, pv *result, err *e);

static int make_typed(pickle *p, const pickle_value *a, pv *result, err *e)
{
    const torch_global *function = a->n == 4 ? global_of(p, a->item[0]) : NULL,
                       *type = function ? global_of(p, a->item[1]) : NULL;
    if (!type || type->role != ROLE_TYPE || pickle_at(p, a->item[2])->kind != PV_TUPLE)
        return refuse_tensor(e, "a tensor of a type that is not torch.Tensor or Parameter");
    if (function->role != ROLE_TENSOR && function->role != ROLE_TENSOR_V3 && function->role != ROLE_PARAMETER)
        return refuse_tensor(e, "a tensor that is made by something unexpected");
    pickle_value inner = *pickle_at(p, a->item[2]); /* a copy: new values may move the table */
    return call_role(p, function->role, &inner, result, e);
}

/* OrderedDict([(key, value), ...]) as old pickles have it; each pair is a list or tuple. */
static int make_dict(pickle *p, const pickle_value *a, pv *result, err *e)
{
    if (!pickle_new(p, (pickle_value){.kind = PV_DICT}, result)) return err_memory(e, NULL);
    if (a->n == 0) return OK;
    pickle_value pairs = *pickle_at(p, a->item[0]);
    if (a->n != 1 || pairs.kind != PV_LIST) return refuse_tensor(e, "an OrderedDict made of something unexpected");
    for (uint32_t i = 0; i < pairs.n; i++) {
        const pickle_value *pair = pickle_at(p, pairs.item[i]);
        if ((pair->kind != PV_LIST && pair->kind != PV_TUPLE) || pair->n != 2)
            return refuse_tensor(e, "an OrderedDict made of something unexpected");
        if (!pickle_push_item(p, *result, pair->item[0]) || !pickle_push_item(p, *result, pair->item[1]))
            return err_memory(e, NULL);
    }
    return OK;
}

static int make_same(pickle *p, const pickle_value *a, pv_kind kind, pv *result, err *e)
{
    pv_kind from = a->n == 1 ? pickle_at(p, a->item[0])->kind : PV_NONE;
    if (from != PV_LIST && from != PV_TUPLE) return refuse_tensor(e, "torch.Size or set of something unexpected");
    pickle_value v = *pickle_at(p, a->item[0]);
    v.kind = kind;
    v.cap = v.n; /* the items are shared: growing must copy them */
    return pickle_new(p, v, result) ? OK : err_memory(e, NULL);
}

static int call_role(pickle *p, torch_role role, const pickle_value *a, pv *result, err *e)
{
    switch (role) {
    case ROLE_DICT: return make_dict(p, a, result, e);
    case ROLE_SET: return make_same(p, a, PV_SET, result, e);
    case ROLE_SIZE: return make_same(p, a, PV_TUPLE, result, e);
    case ROLE_OPAQUE: return new_object(p, TORCH_OPAQUE, NULL, 0, result, e);
    case ROLE_TENSOR:
    case ROLE_TENSOR_V3: return make_tensor(p, a, role, result, e);
    case ROLE_PARAMETER: return make_parameter(p, a, result, e);
    case ROLE_TYPED: return make_typed(p, a, result, e);
    default: return refuse_tensor(e, "a call of something that is not a function");
    }
}

static int call_global(void *self, pickle *p, int64_t number, pv args, pv *result, err *e)
{
    (void)self;
    pickle_value a = *pickle_at(p, args);
    return call_role(p, globals[number].role, &a, result, e);
}

/* State of an OrderedDict ("_metadata": versions of modules) or of a parameter: nothing that is needed. */
static int build_object(void *self, pickle *p, pv object, pv state, err *e)
{
    (void)self;
    (void)state;
    if (pickle_at(p, object)->kind == PV_DICT || is_object(p, object, TORCH_TENSOR)) return OK;
    return refuse_tensor(e, "state for something that is neither a dict nor a tensor");
}

/* ---- storages */

static int find_blob(torch_world *w, span key, const torch_storage *s, uint32_t *out, err *e)
{
    *out = map_get(&w->keys, key);
    if (*out != MAP_NONE) return OK;
    if (!mem_grow((void **)&w->blob, &w->cap, w->n + 1, sizeof *w->blob) || !map_put(&w->keys, key, (uint32_t)w->n))
        return err_memory(e, NULL);
    *out = (uint32_t)w->n;
    w->blob[w->n++] = (torch_blob){.key = key, .element = dtype_info[s->type].bytes, .count = s->count};
    return OK;
}

/* ("storage", class, key, location, elements[, None or (view key, first, elements)]) */
static int load_persistent(void *self, pickle *p, pv id, pv *result, err *e)
{
    torch_world *w = self;
    const pickle_value *a = pickle_at(p, id);
    torch_storage s = {0};
    if (a->kind != PV_TUPLE || a->n < 1 || !pickle_is_text(p, a->item[0], "storage"))
        return refuse_tensor(e, "a persistent id that is not a storage (save model.state_dict(), not the model)");
    const torch_global *g = a->n >= 5 && a->n <= 6 ? global_of(p, a->item[1]) : NULL;
    span key = g ? pickle_text(p, a->item[2]) : span_of("", 0);
    if (!g || g->role != ROLE_STORAGE || key.n == 0 || !get_size(p, a->item[4], &s.count))
        return refuse_tensor(e, "a storage with impossible arguments");
    s.untyped = g->type == DTYPE_NONE;
    s.type = s.untyped ? DTYPE_U8 : g->type;
    int rc = find_blob(w, key, &s, &s.blob, e);
    if (rc) return rc;
    const pickle_value *view = a->n == 6 ? pickle_at(p, a->item[5]) : NULL;
    if (view && view->kind != PV_NONE) {
        uint64_t count = s.count;
        if (view->kind != PV_TUPLE || view->n != 3 || !get_size(p, view->item[1], &s.first) ||
            !get_size(p, view->item[2], &s.count) || s.first > count || s.count > count - s.first)
            return refuse_tensor(e, "a view of a storage that reaches beyond it");
    }
    return new_object(p, TORCH_STORAGE, &s, sizeof s, result, e);
}

void torch_host(torch_world *w, pickle_host *host)
{
    *host = (pickle_host){w, find_global, call_global, load_persistent, build_object};
}

void torch_world_free(torch_world *w)
{
    mem_free(w->blob);
    map_free(&w->keys);
    *w = (torch_world){0};
}

const torch_tensor *torch_tensor_of(const pickle *p, pv v)
{
    return is_object(p, v, TORCH_TENSOR) ? pickle_at(p, v)->object : NULL;
}

const char *torch_dtype_name(const pickle *p, pv v)
{
    const torch_global *g = global_of(p, v);
    return g && g->role == ROLE_DTYPE ? g->name : NULL;
}

bool torch_is_contiguous(const torch_tensor *t)
{
    uint64_t count;
    int64_t expected = 1;
    if (!shape_count(&t->dims, &count) || count == 0) return true;
    for (int i = t->dims.rank; i-- > 0;) {
        if (t->dims.dim[i] != 1 && t->stride[i] != expected) return false;
        expected *= t->dims.dim[i]; /* cannot overflow: no dimension is 0 and the product was counted */
    }
    return true;
}
