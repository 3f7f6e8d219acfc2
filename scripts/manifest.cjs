/**
 * The hook of `pnpm pack`: removes what only this workspace uses, and sorts the dependencies. pnpm resolves the versions of the
 * workspace side by side and writes them in the order in which they are ready, so the bytes would differ from run to run.
 */
const sorted = (dependencies) =>
  dependencies && Object.fromEntries(Object.entries(dependencies).toSorted(([a], [b]) => a < b ? -1 : 1))

const beforePacking = (manifest) => ({
  ...manifest,
  devDependencies: undefined,
  scripts: undefined,
  dependencies: sorted(manifest.dependencies),
  peerDependencies: sorted(manifest.peerDependencies)
})

module.exports = { hooks: { beforePacking } }
