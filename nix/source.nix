# An upstream's tree, as a store path: what harness/nix.py evaluates.
{ name, url, rev }:
toString ((import ../upstreams.nix).fetch name { inherit url rev; })
