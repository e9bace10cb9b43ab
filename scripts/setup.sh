#!/usr/bin/env bash
# Installs what kv8 needs on Debian 12, and only what is missing.
#
#   scripts/setup.sh            what building and running kv8 takes
#   scripts/setup.sh --dev      also what its tests, checks and fuzz targets take
#   scripts/setup.sh --python   also a virtual environment, .venv/, for the differential tests
#   scripts/setup.sh --browser  as --dev, and Chromium (400 MB) for the tests of the server's status page
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(g++ cmake ninja-build python3 libboost1.81-dev libcli11-dev libfmt-dev libhwy-dev libicu-dev
  libsimdjson-dev libspdlog-dev libssl-dev liburing-dev nlohmann-json3-dev prometheus-cpp-dev)
dev_packages=(python3-pip git ccache clang clang-format clang-tidy libclang-rt-14-dev
  libbenchmark-dev libgmock-dev libgtest-dev)
browser_packages=(chromium fonts-dejavu-core)
python_packages=(jinja2 "lm_eval[api]" numpy openai safetensors tokenizers transformers)

as_root() {
  if [[ $(id -u) -eq 0 ]]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    echo "setup: not root and no sudo; as root, run: $*" >&2
    return 1
  fi
}

install_missing() {
  local missing=() package
  for package in "$@"; do
    if ! dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed'; then
      missing+=("$package")
    fi
  done
  [[ ${#missing[@]} -eq 0 ]] && return
  echo "setup: installing ${missing[*]}" >&2
  as_root apt-get -qq update
  as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get -qq install --yes --no-install-recommends "${missing[@]}" >/dev/null
}

case "${1:-}" in
  "") install_missing "${packages[@]}" ;;
  --dev) install_missing "${packages[@]}" "${dev_packages[@]}" ;;
  --browser) install_missing "${packages[@]}" "${dev_packages[@]}" "${browser_packages[@]}" ;;
  --python)
    install_missing "${packages[@]}" "${dev_packages[@]}" python3-venv
    [[ -x .venv/bin/python ]] || python3 -m venv .venv
    .venv/bin/python -m pip install --quiet "${python_packages[@]}"
    ;;
  *)
    sed -n '2,8s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
