/** Writes `bin/payments` and `bin/payments-worker`: the built programs, run by the workspace's own Node. */
import { chmodSync, mkdirSync, renameSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"

const root = dirname(dirname(fileURLToPath(import.meta.url)))

/** The programs. `heap` has the flags of V8 that limit its memory: see docs/operating.md. */
const programs = [
  { name: "payments", file: "apps/cli/dist/payments.js", heap: "--max-semi-space-size=4 --heap-growing-percent=80" },
  {
    name: "payments-worker",
    file: "apps/worker/dist/payments-worker.js",
    heap: "--max-semi-space-size=8 --heap-growing-percent=60"
  }
]

/**
 * Returns the text of a program. `exec` keeps the process id, so that signals reach Node. Not every system has `readlink -f`,
 * so a loop resolves symbolic links.
 */
const script = ({ file, heap, name }) =>
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
  printf '${name}: not built yet. Run "npm run build" in %s\\n' "$root" >&2
  exit 3
fi
# Node replaces a closed stdout by /dev/null. The program could not see the difference, so it gets this variable.
if (true 3>&1) 2>/dev/null; then PAYMENTS_STDOUT=open; else PAYMENTS_STDOUT=closed; fi
export PAYMENTS_STDOUT
exec "$root/node_modules/node/bin/node" ${heap} "$root/${file}" "$@"
`

mkdirSync(join(root, "bin"), { recursive: true })
for (const program of programs) {
  const path = join(root, "bin", program.name)
  // Replace the file by a rename: a shell that is reading the old file can read it to its end.
  writeFileSync(`${path}.new`, script(program))
  chmodSync(`${path}.new`, 0o755)
  renameSync(`${path}.new`, path)
}
