# inferflow. `make` builds build/inferflow; `make help` lists the rest.
#
# One object tree per set of flags: BUILD changes with the variant (asan, ubsan, debug), and build/*/flags makes a flag
# change rebuild. Dependencies come from the compiler (-MMD). Sources are found by wildcard: a new file needs no line
# here.

BUILD   ?= build
CC      := $(if $(filter default,$(origin CC)),gcc,$(CC))
CLANG   ?= clang
OPT     ?= -O2 -g
SAN     ?=
KERNEL_SAN ?= $(SAN)
has = $(shell echo '\#include <$(1)>' | $(CC) $(2) -E -x c - >/dev/null 2>&1 && echo 1)
# 1: loops outside the token loop run on several threads; 0: on one, and every result is the same.
OPENMP  ?= $(or $(call has,omp.h,-fopenmp),0)
WARN    := -Wall -Wextra -Wformat=2 -Wmissing-format-attribute -Wshadow -Wstrict-prototypes -Wpointer-arith -Wvla \
  -Wunused-macros -Wunused-const-variable -Werror=switch -Wno-missing-field-initializers
# A fused multiply-add is written where it is meant and sums keep their order, so every instruction set computes the
# same bits.
BITS    := -fno-fast-math -fno-unsafe-math-optimizations -fno-associative-math -fno-reciprocal-math \
  -fno-finite-math-only -fsigned-zeros -ffp-contract=off -fno-math-errno -fno-trapping-math
# What makes a fault in memory an end instead of a way in, where the compiler has it. Sanitizers do that themselves.
takes = $(shell echo 'int x;' | $(CC) -Werror $(1) -c -o /dev/null -x c - 2>/dev/null && echo '$(1)')
HARDEN := $(if $(SAN),,$(foreach f,-fstack-protector-strong -fstack-clash-protection -fcf-protection \
  -mbranch-protection=standard,$(call takes,$(f))) -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
THREADS := -pthread $(if $(filter 1,$(OPENMP)),-fopenmp,-Wno-unknown-pragmas)
# CFLAGS, CPPFLAGS and LDFLAGS are the user's and add to these; what decides the bits comes after them.
FLAGS   := $(OPT) $(WARN) $(HARDEN) $(CFLAGS) -std=gnu11 $(SAN) $(BITS) $(THREADS)
INCLUDE := -Isrc -I. -I$(BUILD)/gen $(CPPFLAGS)
LINK    := -Wl,-z,relro,-z,now $(LDFLAGS) $(OPT) $(SAN) -fno-fast-math $(THREADS)
LDLIBS  := -lmicrohttpd -lgnutls -lcjson -linih -lpcre2-8 -lutf8proc -lm

HAVE_EDIT := $(and $(call has,editline/readline.h),$(findstring /,$(shell $(CC) -print-file-name=libedit.so)))
ifneq ($(HAVE_EDIT),)
INCLUDE += -DHAVE_EDIT
LDLIBS += -ledit
endif
COMMIT := $(shell git --git-dir=.git describe --always --dirty --exclude='*' 2>/dev/null)

# Per-instruction-set files: the suffix chooses the flags, and those of other machines are left out; everything else is
# built for whatever CC targets. A compiler for another machine: make CC=aarch64-linux-gnu-gcc BUILD=build/aarch64
ARCH  := $(firstword $(subst -, ,$(shell $(CC) -dumpmachine 2>/dev/null)))
AR    := $(shell $(CC) -print-prog-name=ar 2>/dev/null)
ISAS_x86_64 := avx2 avxvnni avx512 avx512bf16
ISAS_aarch64 := neon dotprod
OTHER_ISAS := $(filter-out $(ISAS_$(ARCH)),$(ISAS_x86_64) $(ISAS_aarch64))
ISA_avx2   := -march=x86-64 -mavx2 -mfma -mf16c
ISA_avxvnni := $(ISA_avx2) -mavxvnni
ISA_avx512 := $(ISA_avx2) -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mavx512vbmi -mprefer-vector-width=512
ISA_avx512bf16 := $(ISA_avx512) -mavx512bf16
# gcc on Arm moves loads up before it gives out registers, and then has too few of them for the sums of a tile.
ISA_neon := -march=armv8-a -fno-schedule-insns
ISA_dotprod := -march=armv8.2-a+dotprod -fno-schedule-insns

# The CUDA backend is built where NVIDIA's compiler is, and g++, which that needs; no library. CUDA=0: not even there.
NVCC  ?= $(firstword $(shell command -v nvcc) $(wildcard /usr/local/cuda/bin/nvcc build/cuda/bin/nvcc))
CUDA  ?= $(if $(and $(NVCC),$(shell command -v g++)),1,0)
# What machine code is made for: kinds of GPU as nvcc names them, or all. Every kind from sm_80 on has PTX besides;
# before it the copies and the products of bytes that kernels are made of are missing.
CUDA_TARGETS ?= sm_80 sm_90a
CUDA_KINDS   := $(if $(filter all,$(CUDA_TARGETS)),sm_80 sm_86 sm_89 sm_90a sm_100 sm_103 sm_120,$(CUDA_TARGETS))
CUDA_PTX     := compute_80
ifneq ($(CUDA),0)
INCLUDE += -DHAVE_CUDA
CUDA_SRC    := $(wildcard cuda/*.c)
CUDA_IMAGES := $(foreach i,definitions fast prefill join wide, \
  $(addprefix $(BUILD)/gen/$i.,$(CUDA_KINDS:%=%.cubin) $(CUDA_PTX:%=%.ptx)))
# Of capability 9.0 alone.
CUDA_IMAGES += $(addprefix $(BUILD)/gen/wgmma.,$(patsubst %,%.cubin,$(filter sm_90a,$(CUDA_KINDS))) compute_90a.ptx)
LDLIBS += -llzma
endif

SRC   := $(filter-out src/app/main.c $(OTHER_ISAS:%=cpu/simd/\%_%.c),\
  $(wildcard src/*/*.c cpu/*.c cpu/*/*.c models/*.c models/*/*.c)) $(CUDA_SRC)
OBJ   := $(SRC:%.c=$(BUILD)/obj/%.o)
SPECS := $(wildcard specs/*.ini specs/*.gguf src/serve/page/*) $(CUDA_IMAGES:%=%.xz)
TESTS := $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/t_*.c))
FAKE  := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard tests/fake/*.c))
SOFT_GPU := $(wildcard tests/gpu/*.c)
FUZZ  := $(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
TIME  ?= 60
PYTHON ?= python3
# V=1 shows whole commands; without it one short line per file.
V     ?= 0
ifeq ($(V),0)
Q := @
say = @printf '  %-5s %s\n' $(1) $(2)
endif

.DEFAULT_GOAL := all
.PHONY: all help config setup setup-cuda demo test check pairs weather asan ubsan tsan debug test-aarch64 test-cuda \
  plant-faults test-devices gpu-kit test-page lint format fuzz bench bench-model oracle netlab netlab-tools install \
  install-strip deb uninstall clean FORCE
.SECONDARY:

all: $(BUILD)/inferflow ## build build/inferflow (the default)

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*##' Makefile | sed -E 's/^([a-z0-9-]+):.*## (.*)/  make \1\t\2/' | expand -t 22

config: ## what was found on this machine
	@echo "compiler       $(CC): $$($(CC) --version | head -1)"
	@CC='$(CC)' tools/setup.sh missing | sed 's/^/packages       /'
	@echo "threads        $(if $(filter 1,$(OPENMP)),OpenMP,no OpenMP (optional: quantizing and loading use one thread))"
	@echo "line editing   $(if $(HAVE_EDIT),libedit,absent (optional: chat without history))"
	@echo "fuzzing        $$(command -v $(CLANG) || echo 'absent (optional: clang)')"
	@echo "NVIDIA GPUs    $(if $(filter-out 0,$(CUDA)),$(NVCC) for $(CUDA_KINDS) and as PTX,not built (nvcc and g++: \
make setup-cuda))"
	@echo "commit         $(or $(COMMIT),unknown)"

setup: ## install the packages that are missing (Debian, Ubuntu, Fedora, Arch, Alpine)
	@CC='$(CC)' tools/setup.sh
setup-cuda: ## NVIDIA's compiler into build/cuda, from the Python package index (250 MB; no GPU is needed)
	@PYTHON='$(PYTHON)' tools/setup_cuda.sh

# All cores, unless -j was given.
JOBS = $(if $(findstring -j,$(MAKEFLAGS)),,-j$(shell nproc))

demo: setup ## install what is missing, build, start the server on the built-in model, stream one completion
	@$(MAKE) --no-print-directory $(JOBS) all && tools/demo.sh $(BUILD)/inferflow

test: setup ## install what is missing, build, run all tests
	@$(MAKE) --no-print-directory $(JOBS) check

check: all $(TESTS) ## run all tests (packages must be there)
	@tools/run_tests.sh $(BUILD) $(TESTS)

$(BUILD)/inferflow: $(BUILD)/obj/src/app/main.o $(BUILD)/libinferflow.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(LINK) -o $@.new $^ $(LDLIBS) && mv -f $@.new $@ # whoever runs the old one goes on

$(BUILD)/libinferflow.a: $(OBJ) $(BUILD)/gen/embedded.o
	@rm -f $@
	$(call say,AR,$@)
	$(Q)$(AR) rcs $@ $^

isa = $(foreach i,$(ISAS_$(ARCH)),$(if $(filter %_$(i).c,$(1)),$(ISA_$(i))))
$(BUILD)/obj/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(FLAGS) $(INCLUDE) $(call isa,$<) -MMD -MP -c -o $@ $<

# Hundreds of unrolled bodies: where their variables live takes a compiler longer to say than the rest. Fuzzing leaves
# them as they are (KERNEL_SAN): parsers run none, and clang takes half an hour to prepare them.
$(BUILD)/obj/cpu/simd/qtile_%.o: private FLAGS := $(subst $(SAN),$(KERNEL_SAN),$(patsubst -g,-g1,$(FLAGS)))
$(BUILD)/obj/cpu/simd/kernels_%.o: private FLAGS := $(subst $(SAN),$(KERNEL_SAN),$(FLAGS))

$(BUILD)/obj/src/base/version.o: INCLUDE += -DINFERFLOW_COMMIT='"$(COMMIT:%= (%))"' -DINFERFLOW_CFLAGS='"$(FLAGS)"'
$(BUILD)/obj/src/base/version.o: $(BUILD)/commit
# Files whose time moves when what they say does.
stamp = @mkdir -p $(@D) && echo '$(1)' | cmp -s - $@ || echo '$(1)' > $@
$(BUILD)/commit: FORCE
	$(call stamp,$(COMMIT))
$(BUILD)/nvcc: FORCE
	$(call stamp,$(NVCC) $(NVCC_FLAGS))
$(BUILD)/embedded: FORCE
	$(call stamp,$(SPECS))

# Kernels for GPUs as PTX, and as the machine code that is made of it: what tests judge is what cards run, and the long
# part of compiling is done once. No product and sum is fused that is not written so, and division and roots are
# rounded, so that they give the bits of the CPU.
NVCC_FLAGS := -std=c++20 -fmad=false -prec-div=true -prec-sqrt=true -ftz=false -diag-suppress 20011,20014,20091,20096 \
  -Isrc -I.
define ptx
$(BUILD)/gen/%.$(1).ptx: cuda/%.cu $(BUILD)/nvcc
	@mkdir -p $$(@D)
	$$(call say,NVCC,$$@)
	$$(Q)$$(NVCC) -ptx -arch=$(1) $$(NVCC_FLAGS) -MMD -MP -MT $$@ -MF $$@.d -o $$@.new $$< && mv $$@.new $$@
endef
$(foreach arch,$(CUDA_PTX) compute_90a,$(eval $(call ptx,$(arch))))
# Beside machine code lies what ptxas says of registers, which t_cuda_budget judges. For 9.0 and later instructions of
# dependent launches are no comments (cuda/dependent.cuh).
DEPENDENT := -e 's|// griddep|griddep|' -e 's|^.target sm_8.|.target sm_90|'
define cubin
$(BUILD)/gen/$(2).$(1).cubin: $(BUILD)/gen/$(2).$(3).ptx
	$$(call say,PTXAS,$$@)
	$$(Q)sed $(if $(filter sm_8%,$(1)),'',$$(DEPENDENT)) $$< >$$@.ptx
	$$(Q)$$(NVCC) -cubin -arch=$(1) -Xptxas -v -o $$@.new $$@.ptx 2>$$@.log || { cat $$@.log; exit 1; }
	$$(Q)rm $$@.ptx; mv $$@.new $$@
endef
$(foreach arch,$(CUDA_KINDS),$(eval $(call cubin,$(arch),%,$(CUDA_PTX))))
$(eval $(call cubin,sm_90a,wgmma,compute_90a))
$(BUILD)/gen/%.xz: $(BUILD)/gen/%
	$(Q)xz --lzma2=preset=9e,dict=16MiB -T1 -c $< >$@.new && mv $@.new $@

# Specs, the built-in model and the web page travel inside the executable.
$(BUILD)/gen/embed: tools/embed_files.c
	@mkdir -p $(@D)
	$(Q)cc -O1 -Wall -o $@ $<
$(BUILD)/gen/embedded.S: $(BUILD)/gen/embed $(SPECS) $(BUILD)/embedded
	$(Q)$< $@ $(SPECS)
$(BUILD)/gen/embedded.o: $(BUILD)/gen/embedded.S $(SPECS)
	$(Q)$(CC) $(HARDEN) -c -o $@ $<

$(BUILD)/tests/%: tests/%.c $(FAKE) $(BUILD)/libinferflow.a $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,TEST,$<)
	$(Q)$(CC) $(FLAGS) $(INCLUDE) -MMD -MP -MF $(BUILD)/tests/$*.d -o $@ $< $(FAKE) $(BUILD)/libinferflow.a \
	  $(LINK) -lcmocka $(LDLIBS)

# The CUDA driver whose devices are programs, for tests of what calls it. A register is read as whatever type an
# instruction says. It runs on the machine that builds it, and its speed is that of the tests.
SOFT_GPU_FLAGS = -O3 -fPIC -fno-strict-aliasing \
  $(shell $(CC) -march=native -E -x c /dev/null >/dev/null 2>&1 && echo -march=native)
$(BUILD)/gpu/libcuda.so.1: $(SOFT_GPU:%.c=$(BUILD)/gpu/%.o)
	$(call say,LINK,$@)
	$(Q)$(CC) -shared -Wl,-Bsymbolic,-soname,libcuda.so.1 -o $@.new $^ $(LINK) -lm && mv -f $@.new $@
$(BUILD)/gpu/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(FLAGS) $(SOFT_GPU_FLAGS) $(INCLUDE) -MMD -MP -c -o $@ $<
# Stand-ins for cuBLAS and NCCL there, each with one kernel.
STANDINS := $(BUILD)/gpu/libcublas.so.13 $(BUILD)/gpu/libnccl.so.2
$(BUILD)/gpu/gemm.ptx: tests/gpu/blas/gemm.cu
$(BUILD)/gpu/sum.ptx: tests/gpu/nccl/sum.cu
$(BUILD)/gpu/gemm.ptx $(BUILD)/gpu/sum.ptx:
	@mkdir -p $(@D)
	$(call say,NVCC,$@)
	$(Q)$(NVCC) -ptx -arch=compute_80 $(NVCC_FLAGS) -o $@ $<
$(BUILD)/gpu/libcublas.so.13: tests/gpu/blas/standin.c $(BUILD)/gpu/gemm.ptx
$(BUILD)/gpu/libnccl.so.2: tests/gpu/nccl/nccl_standin.c $(BUILD)/gpu/sum.ptx cuda/nccl.h
$(STANDINS): cuda/cuda_driver.h $(BUILD)/gpu/libcuda.so.1
	$(call say,LINK,$@)
	$(Q)$(CC) $(FLAGS) $(INCLUDE) -fPIC -shared -DSTANDIN_PTX='"$(filter %.ptx,$^)"' -o $@ $(filter %.c,$^) $(LINK) \
	  -L$(BUILD)/gpu -l:libcuda.so.1
GPU_TESTS = $(filter $(BUILD)/tests/t_gpu_% $(BUILD)/tests/t_cuda_%,$(TESTS))
$(GPU_TESTS): $(BUILD)/gpu/libcuda.so.1 $(if $(filter-out 0,$(CUDA)),$(STANDINS))
$(BUILD)/tests/t_cuda_launches: $(BUILD)/make_llama

GPU_KIT := t_gpu_forms t_cuda_models t_plan_devices

PAIRS = $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard tests/pairs/*.c))
$(BUILD)/pairs: $(PAIRS) $(BUILD)/libinferflow.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(LINK) -o $@ $^ $(LDLIBS)
# PAIRS_SECONDS=170: as many as that time allows; PAIRS_OF='run serve': these commands (run, serve, eval, bench, node).
pairs: all $(BUILD)/pairs ## every two values of two options together, in all commands (an hour)
	INFERFLOW_BIN=$(BUILD)/inferflow $(BUILD)/pairs $(if $(PAIRS_SECONDS),--seconds $(PAIRS_SECONDS)) $(PAIRS_OF)

test-cuda: all $(GPU_TESTS) ## the software GPU (build/gpu/libcuda.so.1), what runs on it, and planted faults
	@CUDA_TESTS=all TEST_TIMEOUT=900 tools/run_tests.sh $(BUILD) $(GPU_TESTS)
	@$(MAKE) --no-print-directory plant-faults
# FAULTS='--seed 2 --count 12': others, fewer.
plant-faults: all $(GPU_TESTS) ## faults planted in kernels for GPUs, one at a time: do the tests find them?
	@$(PYTHON) tests/gpu/plant_faults.py --build $(BUILD) $(FAULTS)
asan: ## the tests under AddressSanitizer and leak check
	$(MAKE) check BUILD=build/asan CC=$(CLANG) OPT='-O1 -g' SAN='-fsanitize=address -fno-omit-frame-pointer'
ubsan: ## the tests under UndefinedBehaviorSanitizer
	$(MAKE) check BUILD=build/ubsan CC=$(CLANG) OPT='-O1 -g' SAN='-fsanitize=undefined -fno-sanitize-recover=all'
tsan: ## the tests under ThreadSanitizer
	$(MAKE) check BUILD=build/tsan CC=$(CLANG) OPT='-O1 -g' SAN='-fsanitize=thread' OPENMP=0
# Debian's selenium is for Debian's Python.
PAGE_PYTHON ?= $(shell for p in python3 /usr/bin/python3; do $$p -c 'import selenium' 2>/dev/null && break; done; \
  echo $$p)
test-page: all ## the web page in Chromium (Debian: chromium, chromium-driver, python3-selenium)
	$(PAGE_PYTHON) tests/page/page_test.py $(BUILD)/inferflow
WEATHER_PYTHON ?= python3
weather: $(BUILD)/tests/weather/foreign_node
weather: all ## files that shrink, nodes that stop, memory that runs out, while a server generates (Python 3; minutes)
	$(WEATHER_PYTHON) tests/weather/weather.py $(BUILD)/inferflow '$(ROW)'
test-devices: $(BUILD)/tests/t_plan_devices ## every test model on all combinations of devices, chunks, caches (an hour)
	DEVICES=all TEST_TIMEOUT=14400 tools/run_tests.sh $(BUILD) $<
debug: ## the tests with -DINFERFLOW_DEBUG: aborts on an allocation in the token loop
	$(MAKE) check BUILD=build/debug OPT='-O1 -g -DINFERFLOW_DEBUG'

# Kernels and models on another kind of processor, then kernels on one of them that has no products of bytes.
EMULATED := t_cpu_packed t_cpu_packed_parts t_cpu_kernels t_tensor_quant t_base_fmath t_sample_scan t_models_builtin \
  t_models_families t_models_stories
ON_ARM = $(MAKE) --no-print-directory check CC=aarch64-linux-gnu-gcc BUILD=build/aarch64
test-aarch64: ## kernels and models on Arm under qemu (a cross compiler, qemu-user, our libraries for arm64)
	$(ON_ARM) RUN='qemu-aarch64 -cpu max' TESTS='$(EMULATED:%=build/aarch64/tests/%)'
	$(ON_ARM) RUN='qemu-aarch64 -cpu cortex-a53' \
  TESTS='build/aarch64/tests/t_cpu_kernels build/aarch64/tests/t_models_builtin'

lint: ## include rule, lengths, headers, unused names, formatting
	@python3 tools/check_tree.py && python3 tools/families.py --check && python3 tools/gpu_model.py --check
	@! command -v $(CXX) >/dev/null || ls src/base/*.h src/tensor/*.h src/core/*.h | sed 's/.*/#include "&"/' | \
	  $(CXX) -std=gnu++17 -fsyntax-only -w -Isrc -I. -x c++ - # devices may be written in C++
	@if command -v clang-format >/dev/null; then \
	  git ls-files -z -- '*.c' '*.h' | xargs -0 clang-format --dry-run -Werror; \
	  else echo "lint: clang-format absent, formatting not checked"; fi

format: ## format all C files in place
	@git ls-files -z -co --exclude-standard -- '*.c' '*.h' | xargs -0 clang-format -i

fuzz: $(FUZZ:%=run-%) ## fuzz every parser for TIME=60 seconds each (make run-fuzz_gguf: one)
$(BUILD)/fuzz/bin/%: tests/fuzz/%.c FORCE
	@$(MAKE) --no-print-directory BUILD=build/fuzz CC=$(CLANG) OPT='-O1 -g' KERNEL_SAN= \
	  SAN='-fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=all -fno-omit-frame-pointer' \
	  build/fuzz/libinferflow.a
	@mkdir -p $(@D)
	@$(CLANG) -std=gnu11 -O1 -g $(INCLUDE) -fsanitize=address,undefined,fuzzer -fno-sanitize-recover=all -o $@ $< \
	  build/fuzz/libinferflow.a $(LDLIBS) $(THREADS)
run-fuzz_%: $(BUILD)/fuzz/bin/fuzz_%
	@mkdir -p build/fuzz/corpus/$* build/fuzz/findings
	@mkdir -p tests/fuzz/seeds/$*
	$< -max_total_time=$(TIME) -timeout=10 -rss_limit_mb=2048 -artifact_prefix=build/fuzz/findings/$*- \
	  -print_final_stats=1 build/fuzz/corpus/$* tests/fuzz/seeds/$*

$(BUILD)/make_llama: tools/make_llama.c src/base/half.h
	@mkdir -p $(@D)
	cc -O2 -Wall -Isrc -o $@ $<

$(BUILD)/measure_slots: tools/measure_slots.c $(BUILD)/libinferflow.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(FLAGS) $(INCLUDE) -o $@ $< $(BUILD)/libinferflow.a $(LINK) $(LDLIBS)

# What a machine with an NVIDIA driver alone needs to check and to measure the CUDA backend.
$(BUILD)/gpu/facts.ptx: tools/gpu_kit/facts.cu
	@mkdir -p $(@D)
	$(call say,NVCC,$@)
	$(Q)$(NVCC) -ptx -arch=compute_80 $(NVCC_FLAGS) -o $@ $<
$(BUILD)/gpu_facts: tools/gpu_kit/facts.c $(BUILD)/gpu/facts.ptx $(BUILD)/libinferflow.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(FLAGS) $(INCLUDE) -DFACTS_PTX='"$(BUILD)/gpu/facts.ptx"' -o $@ $< $(BUILD)/libinferflow.a $(LINK) $(LDLIBS)
gpu-kit: all $(BUILD)/make_llama $(BUILD)/gpu_facts $(GPU_KIT:%=$(BUILD)/tests/%) ## tests and benchmarks for a GPU
	tools/gpu_kit/pack.sh $(BUILD) $(GPU_KIT)

bench-model: $(BUILD)/make_llama ## write 2.2 GB of random Llama weights (f16) for make bench BENCH='-m build/llama-1b'
	$< $(BUILD)/llama-1b

bench: all ## decode and prefill speed, share of the measured read bandwidth
	$(BUILD)/inferflow bench $(BENCH)

oracle: all ## live comparison with transformers and the tokenizer libraries; PYTHON=... names a Python that has them
	$(PYTHON) tools/oracle/oracle.py check --binary $(BUILD)/inferflow
	$(PYTHON) tools/oracle/oracle.py exports --binary $(BUILD)/inferflow
	$(PYTHON) tools/oracle/oracle.py mutate --binary $(BUILD)/inferflow
	$(PYTHON) tools/oracle/oracle.py minimal --binary $(BUILD)/inferflow
	$(PYTHON) tools/oracle/oracle.py keys --binary $(BUILD)/inferflow
	$(PYTHON) tools/oracle/oracle_tokenizers.py --binary $(BUILD)/inferflow
	$(PYTHON) tools/oracle/oracle_tokenizers.py --binary $(BUILD)/inferflow --random 100 --count 100
	$(PYTHON) tools/oracle/oracle_classes.py --binary $(BUILD)/inferflow
	$(PYTHON) tools/oracle/oracle_quantized.py --binary $(BUILD)/inferflow
	$(PYTHON) tools/oracle/oracle_schemas.py --binary $(BUILD)/inferflow
	$(PYTHON) tools/oracle/oracle_calls.py --binary $(BUILD)/inferflow

# All rows, or some: make netlab ROWS=tools/netlab/rows/two_step.py
ROWS ?= tools/netlab/rows/laboratory.py \
  $(filter-out %/laboratory.py %/netlab.py,$(wildcard tools/netlab/rows/*.py))
netlab: all netlab-tools ## nodes on networks with rates, delays, losses, cuts: a laboratory of namespaces, without root
	@LAB_BUILD=$(abspath $(BUILD)) tools/netlab/run_rows.sh $(ROWS)
netlab-tools: $(BUILD)/netlab/switch $(BUILD)/netlab/probe $(BUILD)/make_llama
$(BUILD)/netlab/%: tools/netlab/%.c
	@mkdir -p $(@D)
	$(Q)cc -std=gnu11 -O2 -Wall -Wextra -Wshadow -o $@ $<

PREFIX ?= /usr/local
SHARE  = $(DESTDIR)$(PREFIX)/share
# What prints manual page and completion: another one where the executable is for another machine.
PRINTS = $(BUILD)/inferflow
PAGES  = $(SHARE)/man/man1/inferflow.1 $(SHARE)/bash-completion/completions/inferflow \
  $(SHARE)/zsh/site-functions/_inferflow $(SHARE)/fish/vendor_completions.d/inferflow.fish
INSTALLED = $(DESTDIR)$(PREFIX)/bin/inferflow $(PAGES) $(SHARE)/licenses/inferflow/LICENSE
install: all ## copy the executable, its manual page and completion to PREFIX (default /usr/local)
	install -D -m 755 $(BUILD)/inferflow $(firstword $(INSTALLED))
	install -D -m 644 LICENSE $(lastword $(INSTALLED))
	@mkdir -p $(dir $(PAGES))
	$(PRINTS) man >$(word 1,$(PAGES))
	$(PRINTS) completion bash >$(word 2,$(PAGES))
	$(PRINTS) completion zsh >$(word 3,$(PAGES))
	$(PRINTS) completion fish >$(word 4,$(PAGES))
	@chmod 644 $(PAGES)
install-strip: install ## the same without debugging symbols
	strip $(firstword $(INSTALLED))
deb: all ## a Debian package of the executable, its manual page and a unit: build/inferflow_*.deb
	tools/deb.sh $(BUILD)
uninstall: ## remove what install copied
	rm -f $(INSTALLED) && rmdir $(dir $(lastword $(INSTALLED)))

clean: ## remove everything built
	rm -rf build

# A change of flags or compiler rebuilds: the stamp's time moves only when its text does.
FLAGS_NOW = $(CC) $(FLAGS) $(INCLUDE) $(LINK) $(LDLIBS) $(foreach i,$(ISAS_$(ARCH)),$(ISA_$(i)))
$(BUILD)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(subst ','\'',$(FLAGS_NOW))' | cmp -s - $@ || \
	  { CC='$(CC)' tools/setup.sh check && echo '$(subst ','\'',$(FLAGS_NOW))' > $@; }

-include $(CUDA_IMAGES:%=%.d) $(OBJ:.o=.d) $(FAKE:.o=.d) $(SOFT_GPU:%.c=$(BUILD)/gpu/%.d)
-include $(PAIRS:.o=.d) $(BUILD)/obj/src/app/main.d $(TESTS:%=%.d)
