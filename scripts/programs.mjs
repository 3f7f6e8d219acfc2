/** Writes `bin/payments` and `bin/payments-worker`: the built programs, run by the workspace's own Node. */
import { chmodSync, mkdirSync, renameSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"

const root = dirname(dirname(fileURLToPath(import.meta.url)))

/** Each with the size of V8's young generation that suits it: see docs/operating.md. */
const programs = [
  { name: "payments", file: "apps/cli/dist/payments.js", semiSpace: 4 },
  { name: "payments-worker", file: "apps/worker/dist/payments-worker.js", semiSpace: 16 }
]

/** `exec` keeps the process id, so that signals reach Node. `readlink -f` is not everywhere, hence the loop. */
const script = ({ file, name, semiSpace }) =>
  `#!/bin/sh
# Written by "npm start" and "npm run build".
program=$0
while [ -h "$program" ]; do
  target=$(readlink -- "$program")
  case $target in
    /*) program=$target ;;
    *) program=$(dirname -- "$program")/$target ;;
  esac
done
root=$(CDPATH= cd -P -- "$(dirname -- "$program")/.." && pwd) || exit 3
if ! [ -x "$root/node_modules/node/bin/node" ] || ! [ -f "$root/${file}" ]; then
  printf '${name}: it is not built. Run "npm run build" in %s\\n' "$root" >&2
  exit 3
fi
# Node opens /dev/null in the place of a closed stdout, and the program could not tell.
if (true 3>&1) 2>/dev/null; then PAYMENTS_STDOUT=open; else PAYMENTS_STDOUT=closed; fi
export PAYMENTS_STDOUT
exec "$root/node_modules/node/bin/node" --max-semi-space-size=${semiSpace} --heap-growing-percent=80 "$root/${file}" "$@"
`

mkdirSync(join(root, "bin"), { recursive: true })
for (const program of programs) {
  const path = join(root, "bin", program.name)
  // Replaced by a rename: a shell that reads the old one keeps it.
  writeFileSync(`${path}.new`, script(program))
  chmodSync(`${path}.new`, 0o755)
  renameSync(`${path}.new`, path)
}
