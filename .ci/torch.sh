# Sourced by test.sh: a Python with the newest PyTorch, and one with the oldest from 2.2 on
# that has a wheel for this machine's Python. Made once, kept in the cache folder; or
# TORCH_PYTHON and TORCH_OLD_PYTHON name interpreters that have it. LIGHTNING_PYTHON is one
# with Lightning and its company over the newest PyTorch, HUGGINGFACE_PYTHON one with
# transformers and accelerate, FRAMEWORKS_PYTHON one with fastai, Keras and Ultralytics. CUPTI_INCLUDE gets the headers of CUPTI's versions.

torch_cache=${XDG_CACHE_HOME:-$HOME/.cache}/trainglass

# The oldest minor version, 2.2 or newer, among what pip finds for this interpreter.
oldest_torch() {
  "$1" -m pip index versions torch 2>/dev/null | sed -n 's/^Available versions: //p' | tr -d ' ' | tr ',' '\n' |
    grep -E '^2\.([2-9]|[1-9][0-9]+)\.[0-9]+$' | sort -t. -k1,1n -k2,2n -k3,3n | head -1
}

# make_torch NAME REQUIREMENT...: a virtual environment, made under another name first, so
# that one that was cut off is not taken for whole.
make_torch() {
  local folder=$torch_cache/$1 made=$torch_cache/$1.new; shift
  [ -x "$folder/bin/python" ] && return
  say "installing $* into $folder (some GB, once)"
  rm -rf "$made"; mkdir -p "$torch_cache"
  python3 -m venv "$made" && "$made/bin/python" -m pip install -q --disable-pip-version-check "$@" || return
  mv "$made" "$folder" && sed -i "s|$made|$folder|g" "$folder"/bin/* "$folder/pyvenv.cfg" 2>/dev/null
  [ -x "$folder/bin/python" ]
}

# Company shares the PyTorch of torch-newest: one path file instead of some GB again.
make_beside() { # NAME, PYTHON that has torch, what to install
  local folder=$torch_cache/$1 made=$torch_cache/$1.new python=$2 site; shift 2
  [ -x "$folder/bin/python" ] && return
  say "installing $* into $folder (once)"
  rm -rf "$made"; mkdir -p "$torch_cache"
  site=$("$python" -c 'import torch, os; print(os.path.dirname(os.path.dirname(torch.__file__)))') || return
  "$python" -m venv "$made" && echo "$site" >"$("$made/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')/torch.pth" &&
    "$made/bin/python" -m pip install -q --disable-pip-version-check "$@" || return
  mv "$made" "$folder" && sed -i "s|$made|$folder|g" "$folder"/bin/* "$folder/pyvenv.cfg" 2>/dev/null
  [ -x "$folder/bin/python" ]
}

# CUPTI alone, headers and library, of versions that neither PyTorch brings: some MB each. Adds
# their headers to CUPTI_INCLUDE.
provide_cupti() {
  local package folder error=0
  for package in nvidia-cuda-cupti-cu11==11.8.87 nvidia-cuda-cupti-cu12==12.4.127 nvidia-cuda-cupti==13.0.48 nvidia-cuda-cupti==13.0.85; do
    folder=$torch_cache/$package
    if [ ! -d "$folder" ]; then
      say "installing $package into $folder (once)"
      rm -rf "$folder.new"
      "$TORCH_PYTHON" -m pip install -q --disable-pip-version-check --no-deps --target "$folder.new" "$package" && mv "$folder.new" "$folder" || { error=1; continue; }
    fi
    CUPTI_INCLUDE=${CUPTI_INCLUDE:+$CUPTI_INCLUDE:}$(dirname "$folder"/nvidia/*/include/cupti_activity.h)
  done
  export CUPTI_INCLUDE
  return "$error"
}

torch_works() { [ -n "$1" ] && "$1" -c 'import torch' 2>/dev/null; }

# Sets and exports TORCH_PYTHON, TORCH_OLD_PYTHON, LIGHTNING_PYTHON, HUGGINGFACE_PYTHON and
# FRAMEWORKS_PYTHON; fails with a sentence, but goes on without the last two.
provide_torch() {
  local oldest numpy=numpy
  if [ -z "${TORCH_PYTHON:-}" ]; then
    make_torch torch-newest torch numpy pytest || { say "PyTorch could not be installed"; return 1; }
    TORCH_PYTHON=$torch_cache/torch-newest/bin/python
  fi
  if [ -z "${TORCH_OLD_PYTHON:-}" ]; then
    oldest=$(oldest_torch "$TORCH_PYTHON")
    [ -n "$oldest" ] || { say "no list of PyTorch's versions"; return 1; }
    case $oldest in 2.2.*) numpy='numpy<2' ;; esac
    make_torch "torch-$oldest" "torch==$oldest" "$numpy" setuptools pytest || { say "PyTorch $oldest could not be installed"; return 1; }
    TORCH_OLD_PYTHON=$torch_cache/torch-$oldest/bin/python
  fi
  if [ -z "${LIGHTNING_PYTHON:-}" ]; then
    make_beside lightning "$TORCH_PYTHON" lightning pytorch-lightning hydra-core wandb tensorboard \
      torch_tb_profiler psutil "jsonargparse[signatures]" mypy ruff coverage || { say "Lightning could not be installed"; return 1; }
    LIGHTNING_PYTHON=$torch_cache/lightning/bin/python
  fi
  if [ -z "${HUGGINGFACE_PYTHON:-}" ]; then
    if make_beside huggingface "$TORCH_PYTHON" transformers accelerate; then HUGGINGFACE_PYTHON=$torch_cache/huggingface/bin/python
    else say "Hugging Face's libraries could not be installed: their tests are skipped"
    fi
  fi
  if [ -z "${FRAMEWORKS_PYTHON:-}" ]; then
    if make_beside frameworks "$TORCH_PYTHON" fastai keras ultralytics; then FRAMEWORKS_PYTHON=$torch_cache/frameworks/bin/python
    else say "fastai, Keras and Ultralytics could not be installed: their tests are skipped"
    fi
  fi
  provide_cupti || say "some of CUPTI's versions could not be installed: their records are not compared"
  export TORCH_PYTHON TORCH_OLD_PYTHON LIGHTNING_PYTHON HUGGINGFACE_PYTHON FRAMEWORKS_PYTHON
  torch_works "$TORCH_PYTHON" && torch_works "$TORCH_OLD_PYTHON" || { say "PyTorch cannot be imported"; return 1; }
}
