/** Writes `bin/payments` and `bin/payments-worker`: the built programs, run by the workspace's own Node. */
import { chmodSync, mkdirSync, renameSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"

const root = dirname(dirname(fileURLToPath(import.meta.url)))

/** A larger first heap for objects that live short. Without it, V8 collects garbage three times before the first request: 3 ms. */
const firstHeap = "--min-semi-space-size=8"

/**
 * What limits the memory of the commands that match `heavy`: see docs/worker.md. With `--heap-growing-percent`, Node starts
 * 20 ms later, because it cannot use its own compiled code.
 */
const limits = {
  variables: "export MALLOC_ARENA_MAX=1",
  flags: "--max-semi-space-size=4 --heap-growing-percent=60"
}

const programs = [
  {
    name: "payments",
    file: "apps/cli/dist/payments.js",
    heavy: `*" export "*|*" reconcile "*|*" start "*`
  },
  {
    name: "payments-worker",
    file: "apps/worker/dist/payments-worker.js",
    heavy: `*" run "*`
  }
]

/**
 * Returns the text of a program. `exec` keeps the process id, so that signals reach Node. Not every system has `readlink -f`,
 * so a loop resolves symbolic links. Without a link the script starts no other program than Node, because each takes 1 ms.
 */
const script = ({ file, heavy, name }) =>
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
case $program in
  */*) folder=\${program%/*} ;;
  *) folder=. ;;
esac
root=$(CDPATH= cd -P -- "$folder/.." && pwd) || exit 3
if ! [ -x "$root/node_modules/node/bin/node" ] || ! [ -f "$root/${file}" ]; then
  printf '${name}: not built yet. Run "npm run build" in %s\\n' "$root" >&2
  exit 3
fi
# Node replaces a closed stdout by /dev/null. The program could not see the difference, so it gets this variable.
if { true 3>&1; } 2>/dev/null; then PAYMENTS_STDOUT=open; else PAYMENTS_STDOUT=closed; fi
export PAYMENTS_STDOUT
case " $* " in
  ${heavy})
    ${limits.variables}
    exec "$root/node_modules/node/bin/node" ${limits.flags} "$root/${file}" "$@" ;;
esac
exec "$root/node_modules/node/bin/node" ${firstHeap} "$root/${file}" "$@"
`

mkdirSync(join(root, "bin"), { recursive: true })
for (const program of programs) {
  const path = join(root, "bin", program.name)
  // Replace the file by a rename: a shell that is reading the old file can read it to its end.
  writeFileSync(`${path}.new`, script(program))
  chmodSync(`${path}.new`, 0o755)
  renameSync(`${path}.new`, path)
}
