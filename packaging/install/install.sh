#!/bin/sh
# Installs Mailroom <<.Version>> into ~/.local/bin, or into FOLDER:
#
#	sh install.sh [FOLDER]
#
# It verifies the signature of SHA256SUMS with the key below, and the archive with SHA256SUMS, before it unpacks anything.
# The files come from MAILROOM_FROM (an address or a folder), or else from the address that this script was built with, or
# else from the folder of this script.
set -eu
unset CDPATH # with it, cd prints

version='<<.Version>>'
from="${MAILROOM_FROM:-<<.URL>>}"
key='<<.Key>>'
usage="usage: sh install.sh [FOLDER]"

fail() {
	echo "install.sh: $*. Nothing was installed" >&2
	exit 1
}

need() {
	command -v "$1" >/dev/null || fail "$1 is missing: install $2, and run this script again"
}

# fetch FILE copies or downloads a file into the present folder.
fetch() {
	case $from in
	http://* | https://*)
		if command -v curl >/dev/null; then
			curl -fsSL -o "$1" "$from/$1"
		else
			need wget "curl or wget"
			wget -q -O "$1" "$from/$1"
		fi || fail "cannot download $from/$1"
		;;
	*) cp "$from/$1" "$1" || fail "cannot copy $from/$1" ;;
	esac
}

# The whole script is read before any of it runs.
main() {
	case ${1-} in -h | --help) echo "$usage" && exit ;; -*) fail "$1 is not an option ($usage)" ;; esac
	[ $# -le 1 ] || fail "only one folder can be given ($usage)"
	folder=${1:-$HOME/.local/bin}
	[ -n "$from" ] || from=$(dirname "$0")
	case $from in http://* | https://*) ;; *) from=$(cd "$from" && pwd) || fail "cannot read the folder of the files" ;; esac
	case $folder in /*) ;; *) folder=$PWD/$folder ;; esac
	need ssh-keygen "OpenSSH 8.1 or later"
	need tar tar
	need gzip gzip
	command -v sha256sum >/dev/null || need shasum "coreutils or Perl"

	case $(uname -m) in
	x86_64 | amd64) arch=amd64 ;;
	aarch64 | arm64) arch=arm64 ;;
	*) fail "there is no build for $(uname -m): build from source" ;;
	esac
	case $(uname -s) in
	Linux) name=mailroom_${version}_linux_$arch ;;
	Darwin) name=mailroom-client_${version}_darwin_$arch ;;
	*) fail "there is no build for $(uname -s): build from source" ;;
	esac

	scratch=$(mktemp -d)
	new=
	trap 'rm -rf "$scratch" ${new:+"$new"}' EXIT
	trap 'exit 1' HUP INT TERM
	cd "$scratch"
	fetch SHA256SUMS
	fetch SHA256SUMS.sig
	echo "mailroom namespaces=\"mailroom\" $key" >signers
	ssh-keygen -q -Y verify -f signers -I mailroom -n mailroom -s SHA256SUMS.sig <SHA256SUMS >/dev/null 2>&1 ||
		fail "the signature of SHA256SUMS is not valid"
	grep "^[0-9a-f]*  $name.tar.gz\$" SHA256SUMS >sum || fail "SHA256SUMS does not list $name.tar.gz"
	fetch "$name.tar.gz"
	if command -v sha256sum >/dev/null; then
		sha256sum -c sum >/dev/null 2>&1
	else
		shasum -a 256 -c sum >/dev/null 2>&1
	fi || fail "$name.tar.gz is not the file that was signed"

	tar -xzf "$name.tar.gz" || fail "cannot unpack $name.tar.gz"
	mkdir -p "$folder" || fail "cannot create $folder"
	[ ! -d "$folder/mailroom" ] || fail "$folder/mailroom is a folder"
	new=$(mktemp "$folder/.mailroom.XXXXXX") || fail "cannot write to $folder"
	cp "$name/mailroom" "$new" && chmod 755 "$new" || fail "cannot write to $folder"
	installed=$("$new" --version) || fail "the program does not run in $folder"
	mv -f "$new" "$folder/mailroom" || fail "cannot write to $folder" # a running program is replaced, not overwritten
	echo "Installed $installed in $folder"
	case $name in mailroom-client_*) echo "This is the client: it uses databases on other machines and on PostgreSQL servers." ;; esac
	case :$PATH: in *:"$folder":*) ;; *) echo "Add $folder to PATH, for example: export PATH=\"$folder:\$PATH\"" ;; esac
}

main "$@"
