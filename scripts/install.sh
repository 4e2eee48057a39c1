#!/bin/sh
# Installs Weir from an archive of `make dist`.
#
#   WEIR_BASE_URL=https://HOST/FOLDER WEIR_VERSION=0.1.0 sh install.sh
#
# The folder has weir-VERSION-TARGET.tar.gz and, beside it, the same name with .sha256. Variables:
#   WEIR_BASE_URL   address of the folder (required)
#   WEIR_VERSION    version to install (required)
#   WEIR_PREFIX     where to install; default: /usr/local for root, ~/.local for other users
#   WEIR_SHA256     the archive's SHA-256 from a source that you trust. Without it, the sum comes from the same server:
#                   it detects a damaged archive, but not a server that was broken into
# Nothing is installed unless the sum and the architecture match and the program runs.
set -eu

fail() {
    echo "install.sh: $*" >&2
    exit 1
}

need() {
    command -v "$1" >/dev/null 2>&1 || fail "$1 is missing; install it and start again"
}

# Prints the target of this machine.
target() {
    [ "$(uname -s)" = Linux ] || fail "Weir runs on Linux, this is $(uname -s)"
    case "$(uname -m)" in
        x86_64 | amd64) echo x86_64-unknown-linux-gnu ;;
        aarch64 | arm64) echo aarch64-unknown-linux-gnu ;;
        *) fail "there is no archive for $(uname -m), only for x86_64 and aarch64; build from source with make up" ;;
    esac
}

# download URL FILE
download() {
    if command -v curl >/dev/null 2>&1; then
        curl --fail --silent --show-error --location --retry 2 --output "$2" "$1" || fail "cannot download $1"
    else
        wget --quiet --tries=3 --output-document="$2" "$1" || fail "cannot download $1"
    fi
}

# Prints the SHA-256 of a file.
sum_of() {
    if command -v sha256sum >/dev/null 2>&1; then
        sha256sum "$1" | cut -d ' ' -f 1
    else
        shasum --algorithm 256 "$1" | cut -d ' ' -f 1
    fi
}

# Prints the sum in a file that sha256sum wrote.
expected_sum() {
    expected=$(head -n 1 "$1" | cut -d ' ' -f 1)
    # A page with an error message is not a sum.
    case "$expected" in
        *[!0-9a-f]* | "") fail "$sum_url has no SHA-256" ;;
    esac
    [ ${#expected} -eq 64 ] || fail "$sum_url has no SHA-256"
    echo "$expected"
}

# Prints the target that a program is for, by bytes 18 and 19 of the ELF header.
target_of() {
    case "$(od -A n -t x1 -j 18 -N 2 "$1" | tr -d ' \n')" in
        3e00) echo x86_64-unknown-linux-gnu ;;
        b700) echo aarch64-unknown-linux-gnu ;;
        *) echo "another machine" ;;
    esac
}

# put FILE DESTINATION MODE: replaces the file in one step, so that a running Weir is not disturbed.
put() {
    mkdir -p "$(dirname "$2")"
    cp "$1" "$2.new"
    chmod "$3" "$2.new"
    mv -f "$2.new" "$2"
}

install_tree() {
    put "$tree/weir" "$prefix/bin/weir" 0755
    for page in "$tree"/man/*.1; do
        put "$page" "$prefix/share/man/man1/$(basename "$page")" 0644
    done
    put "$tree/completions/weir.bash" "$prefix/share/bash-completion/completions/weir" 0644
    put "$tree/completions/weir.zsh" "$prefix/share/zsh/site-functions/_weir" 0644
    put "$tree/completions/weir.fish" "$prefix/share/fish/vendor_completions.d/weir.fish" 0644
    for text in LICENSE LICENCES-OF-DEPENDENCIES.txt deploy/weir.service; do
        put "$tree/$text" "$prefix/share/doc/weir/$(basename "$text")" 0644
    done
}

[ -n "${WEIR_BASE_URL:-}" ] || fail "set WEIR_BASE_URL to the address of the folder with the archives"
[ -n "${WEIR_VERSION:-}" ] || fail "set WEIR_VERSION to the version to install"
need tar
need od
need gzip
command -v curl >/dev/null 2>&1 || need wget
command -v sha256sum >/dev/null 2>&1 || need shasum

target=$(target)
name=weir-$WEIR_VERSION-$target
archive_url=${WEIR_BASE_URL%/}/$name.tar.gz
sum_url=$archive_url.sha256
if [ -n "${WEIR_PREFIX:-}" ]; then
    prefix=$WEIR_PREFIX
elif [ "$(id -u)" -eq 0 ]; then
    prefix=/usr/local
else
    prefix=$HOME/.local
fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM

echo "downloading $archive_url"
download "$archive_url" "$folder/archive.tar.gz"
if [ -n "${WEIR_SHA256:-}" ]; then
    expected=$WEIR_SHA256
else
    download "$sum_url" "$folder/sum"
    expected=$(expected_sum "$folder/sum")
fi
found=$(sum_of "$folder/archive.tar.gz")
if [ "$found" != "$expected" ]; then
    bytes=$(wc -c <"$folder/archive.tar.gz" | tr -d ' ')
    fail "the archive is damaged or not the one that was published: nothing was installed
  expected SHA-256 $expected
  found            $found ($bytes bytes)"
fi

tar -xzf "$folder/archive.tar.gz" -C "$folder" 2>/dev/null || fail "$archive_url is not an archive: nothing was installed"
tree=$folder/$name
[ -f "$tree/weir" ] || fail "the archive has no $name/weir: nothing was installed"
is_for=$(target_of "$tree/weir")
[ "$is_for" = "$target" ] || fail "the program in the archive is for $is_for, this machine is $target: nothing was installed"
version=$("$tree/weir" --version 2>/dev/null) || fail "the program does not run on this machine (it needs glibc, 2.36 or newer): nothing was installed"

install_tree
echo "installed $version in $prefix"
case ":$PATH:" in
    *":$prefix/bin:"*) ;;
    *) echo "add it to your PATH: export PATH=\"$prefix/bin:\$PATH\"" ;;
esac
echo "next: weir check --machine, then weir up"
