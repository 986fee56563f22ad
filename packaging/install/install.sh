#!/bin/sh
# Installs Mailroom <<.Version>> into ~/.local/bin, or into the folder that is named:
#
#	sh install.sh [FOLDER]
#
# It verifies the signature of SHA256SUMS with the key below, and the archive with SHA256SUMS, before it unpacks anything.
# The files come from the address below, from MAILROOM_FROM (an address or a folder), or from the folder of this script.
set -eu

version='<<.Version>>'
from="${MAILROOM_FROM:-<<.URL>>}"
key='<<.Key>>'

fail() {
	echo "install.sh: $*" >&2
	exit 1
}

need() {
	command -v "$1" >/dev/null || fail "$1 is missing: install $2 and run this again"
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
	folder=${1:-$HOME/.local/bin}
	[ -n "$from" ] || from=$(dirname "$0")
	case $from in http://* | https://*) ;; *) from=$(cd "$from" && pwd) ;; esac
	case $folder in /*) ;; *) folder=$PWD/$folder ;; esac
	need ssh-keygen "OpenSSH 8.1 or later"
	need tar tar

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
	trap 'rm -rf "$scratch"' EXIT
	cd "$scratch"
	fetch SHA256SUMS
	fetch SHA256SUMS.sig
	echo "mailroom namespaces=\"mailroom\" $key" >signers
	ssh-keygen -q -Y verify -f signers -I mailroom -n mailroom -s SHA256SUMS.sig <SHA256SUMS >/dev/null 2>&1 ||
		fail "the signature of SHA256SUMS is not valid. Nothing was installed"
	grep "^[0-9a-f]*  $name.tar.gz\$" SHA256SUMS >sum || fail "SHA256SUMS does not list $name.tar.gz. Nothing was installed"
	fetch "$name.tar.gz"
	if command -v sha256sum >/dev/null; then
		sha256sum -c sum >/dev/null 2>&1
	else
		shasum -a 256 -c sum >/dev/null 2>&1
	fi || fail "$name.tar.gz is not the file that was signed. Nothing was installed"

	tar -xzf "$name.tar.gz"
	mkdir -p "$folder"
	cp "$name/mailroom" "$folder/.mailroom.new"
	chmod 755 "$folder/.mailroom.new"
	mv "$folder/.mailroom.new" "$folder/mailroom" # a program that runs is replaced, not overwritten
	echo "Installed $("$folder/mailroom" --version) in $folder"
	case $name in mailroom-client_*) echo "This is the client: it uses databases on other machines and on PostgreSQL servers." ;; esac
	case :$PATH: in *:"$folder":*) ;; *) echo "Add $folder to PATH." ;; esac
}

main "$@"
