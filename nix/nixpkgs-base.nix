# The base from nixpkgs: a folder of links with the same places as a captured one.
{ pkgs }:
let
  inherit (pkgs) glibc lib python311 stdenv;
  loader = {
    x86_64-linux = "ld-linux-x86-64.so.2";
    aarch64-linux = "ld-linux-aarch64.so.1";
  }.${stdenv.hostPlatform.system};
  from = package: names: map (name: { name = "lib/${name}"; path = "${package}/lib/${name}"; }) names;
in
pkgs.linkFarm "harness-base" (
  [
    { name = "bin/python3.11"; path = "${python311}/bin/python3.11"; }
    { name = "bin/python3"; path = "${python311}/bin/python3.11"; }
    { name = "bin/sh"; path = "${pkgs.dash}/bin/dash"; }
    { name = "lib/python3.11"; path = "${python311}/lib/python3.11"; }
    {
      name = "base.json";
      path = pkgs.writeText "base.json" (builtins.toJSON {
        schema_version = 1;
        kind = "nixpkgs";
        python = python311.version;
        system = stdenv.hostPlatform.system;
        glibc = lib.versions.majorMinor glibc.version;
        loader = "lib/${loader}";
        libraries = "lib";
      });
    }
  ]
  # What glibc opens by name and what manylinux wheels may take from the host.
  ++ from glibc [
    loader
    "libc.so.6"
    "libdl.so.2"
    "libm.so.6"
    "libnss_dns.so.2"
    "libnss_files.so.2"
    "libpthread.so.0"
    "libresolv.so.2"
    "librt.so.1"
    "libutil.so.1"
  ]
  ++ from stdenv.cc.cc.lib [ "libatomic.so.1" "libgcc_s.so.1" "libgomp.so.1" "libstdc++.so.6" ]
  ++ from (lib.getLib pkgs.zlib) [ "libz.so.1" ]
  ++ from (lib.getLib pkgs.expat) [ "libexpat.so.1" ]
)
