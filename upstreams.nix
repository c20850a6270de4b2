# The upstreams' pinned commits (upstreams.json) as source trees.
#
# `fetch "mdlm" { }` takes GitHub, `fetch "mdlm" { mirror = "/some/clone"; }` any copy of it: the
# commit decides the tree, so both are the same store path. Nothing is fetched until it is used.
let
  inherit (builtins) attrNames concatStringsSep fetchTree fromJSON readFile;
  pins = (fromJSON (readFile ./upstreams.json)).upstreams;
in
{
  inherit pins;

  fetch = name: { mirror ? null }:
    let
      pin = pins.${name} or (throw "upstream ${name}: unknown; one of ${concatStringsSep ", " (attrNames pins)}");
    in
    fetchTree ({
      type = "git";
      url = if mirror == null then "https://github.com/${pin.owner}/${pin.repo}" else "file://${mirror}";
      inherit (pin) rev;
      allRefs = true;
    } // (if pin ? narHash then { inherit (pin) narHash; } else { }));
}
