# Environments: a lock's wheels, one store path each, as a farm of file links on a base.
#
# Not part of the flake's outputs: a captured base is known to the store alone, which a pure
# evaluation cannot look at. Arguments: the base's store path, and the locks' names in the order
# they extend each other, the environment's own one last.
{ base, name, envs ? ../../envs }:
let
  inherit (builtins) concatLists concatStringsSep elem filter foldl' fromJSON hashString readFile storePath toJSON;

  ground = storePath base;
  facts = fromJSON (readFile "${ground}/base.json");
  lockText = lock: readFile (envs + "/${lock}.json");
  lock = lock: fromJSON (lockText lock);

  # A lock's name after those it extends, each once.
  chain = foldl' (seen: next: seen ++ filter (one: !(elem one seen)) (ancestry next)) [ ];
  ancestry = one: chain (lock one).extends ++ [ one ];
  locks = ancestry name;
  wheels = concatLists (map (one: (lock one).wheels) locks);
  tools = (lock "build").wheels;

  # Run a Python program of this folder in the Nix sandbox, by the base's own loader.
  python = program: attributes: derivation ({
    inherit (facts) system;
    builder = "${ground}/${facts.loader}";
    args = [ "--library-path" "${ground}/${facts.libraries}" "${ground}/bin/python3.11" "-I" "-B" program ];
    preferLocalBuild = true;
    allowSubstitutes = false;
  } // attributes);

  fetched = import ./wheels.nix { inherit ground facts; };
  installed = wheel: python "${./unpack.py}" ({
    name = "${wheel.name}-${wheel.version}";
    wheel = fetched wheel;
    inherit (wheel) file kind;
    tools = map fetched tools;
  } // (if wheel.kind == "sdist" then { builder_sdist = ./build_sdist.py; } else { }));
in
assert facts.system == (lock name).system
  || throw "envs/${name}.json is locked for ${(lock name).system}, this base is ${facts.system}; run: harness lock ${name}";
{
  environment = python "${./farm.py}" {
    name = "environment-${name}";
    passAsFile = [ "record" ];
    trees = map installed wheels;
    record = toJSON {
      inherit name;
      lock_sha256 = hashString "sha256" (concatStringsSep "" (map lockText ([ "build" ] ++ locks)));
      base = "${ground}";
      base_kind = facts.kind;
      python = facts.python;
      wheels = map (wheel: { inherit (wheel) name version file sha256; }) wheels;
    };
  };
}
