# A lock's entry -> its file as a fixed-output derivation.
#
# The same store path as `nix-store --add-fixed sha256 FILE`, so that a file the user's own pip
# fetched satisfies it and nothing here ever needs the network.
{ ground, facts }:
{ file, sha256, ... }:
derivation {
  name = file;
  inherit (facts) system;
  outputHashMode = "flat";
  outputHashAlgo = "sha256";
  outputHash = sha256;
  builder = "${ground}/${facts.loader}";
  args = [ "--library-path" "${ground}/${facts.libraries}" "${ground}/bin/sh" "${./absent.sh}" file ];
}
