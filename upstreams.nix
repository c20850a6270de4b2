# The upstreams' pinned commits (upstreams.json) as source trees.
#
# `fetch "mdlm" { }` takes GitHub, `fetch "mdlm" { url = "file:///some/clone"; }` any copy of it:
# the commit decides the tree, so both are the same store path. Nothing is fetched until it is
# used. Another commit than the pinned one (`rev`) has no pinned digest.
let
  inherit (builtins) attrNames concatStringsSep fetchGit fromJSON readFile;
  pins = (fromJSON (readFile ./upstreams.json)).upstreams;
in
{
  inherit pins;

  fetch = name: { url ? null, rev ? null }:
    let
      pin = pins.${name} or (throw "upstream ${name}: unknown; one of ${concatStringsSep ", " (attrNames pins)}");
      pinned = rev == null || rev == pin.rev;
    in
    fetchGit ({
      url = if url == null then "https://github.com/${pin.owner}/${pin.repo}" else url;
      rev = if pinned then pin.rev else rev;
      allRefs = true;
    } // (if pinned && pin ? narHash then { inherit (pin) narHash; } else { }));
}
