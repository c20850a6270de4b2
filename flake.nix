{
  description = "A reproducibility harness for diffusion language models";

  # Forced only where the base comes from nixpkgs: everything else works where it is out of reach.
  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-25.05";

  outputs = { self, nixpkgs }:
    let
      inherit (builtins) attrNames listToAttrs readDir;
      each = names: value: listToAttrs (map (name: { inherit name; value = value name; }) names);
      systems = [ "x86_64-linux" "aarch64-linux" ];

      # One link to the launcher a command; the folder is the list of commands.
      commands = attrNames (readDir ./nix/apps/bin);

      # An app has to lie in a derivation's output: links to this source, made by Nix itself.
      programs = system: derivation {
        name = "harness";
        inherit system;
        builder = "builtin:buildenv";
        preferLocalBuild = true; # no cache is asked for it
        allowSubstitutes = false;
        manifest = "/dev/null";
        derivations = [ "true" 5 1 "${self}/nix/apps" ];
      };
    in
    {
      apps = each systems (system: each commands (name: {
        type = "app";
        program = "${programs system}/bin/${name}";
      }));

      legacyPackages = each systems (system: {
        base = import ./nix/nixpkgs-base.nix { pkgs = nixpkgs.legacyPackages.${system}; };
        upstreams = import ./upstreams.nix;
      });
    };
}
