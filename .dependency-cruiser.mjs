/**
 * Which part of the repository may import which. `npm run check` compares every import with these rules, also those of types.
 * `apps/cli/test/package/Walls.test.ts` breaks each rule once.
 */

/** The rooms of each package. A room imports only rooms before it in the list. */
export const rooms = {
  "packages/core": ["model", "pace", "config", "http", "page", "listing", "api", "testing"],
  "packages/copy": [
    "text",
    "filesystem",
    "stdout",
    "port",
    "plan",
    "rule",
    "scan",
    "statement",
    "store",
    "session",
    "personal",
    "sql",
    "sqlite",
    "postgres",
    "files",
    "facts",
    "thread",
    "destination",
    "ask",
    "reconcile",
    "handoff"
  ],
  "packages/program": [
    "text",
    "terminal",
    "contract",
    "outcome",
    "settings",
    "ratelimit",
    "sources",
    "telemetry",
    "doctor",
    "run"
  ],
  "packages/sandbox": ["generate", "serve", "control", "receive"],
  "apps/cli": ["contract", "completions", "output", "listing", "charts", "agents", "progress", "commands"],
  "apps/worker": ["contract", "state", "loop", "page", "cluster", "commands"],
  "apps/bench": ["harness", "workloads", "fleet", "measures"]
}

/** The packages that the sources of a package may import, next to its own. */
const packages = {
  "packages/core": [],
  "packages/copy": ["packages/core"],
  "packages/program": ["packages/core", "packages/copy"],
  "packages/sandbox": ["packages/core"],
  "packages/testkit": ["packages/core", "packages/copy", "packages/program", "packages/sandbox"],
  "apps/cli": ["packages/core", "packages/copy", "packages/program", "packages/sandbox"],
  "apps/worker": ["packages/core", "packages/copy", "packages/program"],
  "apps/bench": ["packages/core", "packages/copy", "packages/program", "packages/sandbox", "packages/testkit"]
}

const nameOf = (folder) => folder.split("/")[1]

const betweenPackages = Object.entries(packages).map(([folder, allowed]) => ({
  name: `${nameOf(folder)}-imports-only-${allowed.map(nameOf).join("-") || "itself"}`,
  severity: "error",
  from: { path: `^${folder}/src/` },
  to: { path: "^(?:packages|apps)/", pathNot: [folder, ...allowed].map((one) => `^${one}/`) }
}))

const betweenRooms = Object.entries(rooms).flatMap(([folder, list]) => [
  ...list.slice(0, -1).map((room, index) => ({
    name: `${nameOf(folder)}-${room}-imports-no-room-above-it`,
    severity: "error",
    from: { path: `^${folder}/src/${room}/` },
    to: { path: `^${folder}/src/(?:${list.slice(index + 1).join("|")})/` }
  })),
  {
    name: `${nameOf(folder)}-rooms-import-no-entry`,
    comment: "The files beside the rooms are the entries of the package.",
    severity: "error",
    from: { path: `^${folder}/src/[^/]+/` },
    to: { path: `^${folder}/src/[^/]+$` }
  },
  {
    name: `${nameOf(folder)}-has-no-other-room`,
    comment: "A new room needs its place in the list.",
    severity: "error",
    from: { path: `^${folder}/src/(?!(?:${list.join("|")})/)[^/]+/` },
    to: {}
  }
])

export default {
  forbidden: [
    ...betweenPackages,
    ...betweenRooms,
    { name: "no-cycle", severity: "error", from: {}, to: { circular: true } },
    {
      name: "sources-import-no-tests",
      severity: "error",
      from: { pathNot: "/test/|^apps/(?:cli|worker)/(?:docs|screenshots)[.]ts$" },
      to: { path: "/test/" }
    },
    {
      name: "the-port-imports-only-texts",
      severity: "error",
      from: { path: "^packages/copy/src/port/" },
      to: { path: "^packages/copy/src/(?!port/|text/)" }
    },
    {
      name: "databases-do-not-know-each-other",
      severity: "error",
      from: { path: "^packages/copy/src/(sqlite|postgres)/" },
      to: { path: "^packages/copy/src/(?:sqlite|postgres)/", pathNot: "^packages/copy/src/$1/" }
    },
    {
      name: "core-needs-no-platform",
      comment: "Only the entry `node` and what it uses import Node.",
      severity: "error",
      from: { path: "^packages/core/src/", pathNot: "^packages/core/src/(?:node[.]ts$|http/(?:Node|UndiciRead))" },
      to: { dependencyTypes: ["core"] }
    }
  ],
  options: {
    tsPreCompilationDeps: true,
    doNotFollow: { path: "node_modules" },
    exclude: { path: "(?:^|/)dist/" },
    enhancedResolveOptions: { exportsFields: ["exports"], conditionNames: ["import", "types", "default"] }
  }
}
