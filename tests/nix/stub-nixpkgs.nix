# The nixpkgs base, over a package set with names only: what it links, by place.
let
  package = name: { outPath = "/stub/${name}"; };
  base = import ../../nix/nixpkgs-base.nix {
    pkgs = {
      lib = {
        getLib = one: one;
        versions.majorMinor = version: builtins.head (builtins.match "([0-9]+\\.[0-9]+).*" version);
      };
      glibc = package "glibc" // { version = "2.40-66"; };
      python311 = package "python" // { version = "3.11.13"; };
      stdenv = {
        hostPlatform.system = "x86_64-linux";
        cc.cc.lib = package "gcc";
      };
      dash = package "dash";
      zlib = package "zlib";
      expat = package "expat";
      writeText = name: text: text;
      linkFarm = name: entries: builtins.listToAttrs (map (one: { inherit (one) name; value = one.path; }) entries);
    };
  };
in
base
