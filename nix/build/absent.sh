# The builder of a locked file that is not in the store: a build has no network to fetch it with.
echo "$1 is not in the store; fetch the locked files with: python3.11 nix/prefetch.py envs/*.json" >&2
exit 1
