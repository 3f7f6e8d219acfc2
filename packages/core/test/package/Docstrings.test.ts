/** Checks that every public export, and every member of a public interface, class or record, has a docstring. */
import { assert, describe, it } from "@effect/vitest"
import { join } from "node:path"
// TypeScript 7 has no compiler API, so this uses TypeScript 5.
import ts from "typescript-5"

const folder = join(import.meta.dirname, "../..")
const source = join(folder, "src/")
const entries = ["index", "node", "promise", "testing"].map((entry) => join(source, `${entry}.ts`))
const { config } = ts.readConfigFile(join(folder, "tsconfig.build.json"), ts.sys.readFile)
const program = ts.createProgram(entries, ts.parseJsonConfigFileContent(config, ts.sys, folder).options)
const checker = program.getTypeChecker()

/** Whether the symbol has a docstring. `{@inheritDoc}` alone is none: the docstring is then expected on the schema. */
const isDocumented = (symbol: ts.Symbol): boolean =>
  ts.displayPartsToString(symbol.getDocumentationComment(checker)).replace(/\{@inheritDoc[^}]*\}/, "").trim() !== ""

const isOwn = (node: ts.Declaration): boolean => node.getSourceFile().fileName.startsWith(source)

/** Returns the members that this package declares, without tags and without overrides of documented members. */
const membersOf = (symbol: ts.Symbol): ReadonlyArray<ts.Symbol> => {
  const isType = symbol.flags & (ts.SymbolFlags.Interface | ts.SymbolFlags.Class)
  const statics = symbol.flags & ts.SymbolFlags.Class ? checker.getTypeOfSymbol(symbol).getProperties() : []
  return [...isType ? checker.getDeclaredTypeOfSymbol(symbol).getProperties() : [], ...statics].filter((member) =>
    member.name !== "_tag" && member.name !== "prototype" &&
    member.declarations?.some((node) => isOwn(node) && !(ts.getCombinedModifierFlags(node) & ts.ModifierFlags.Override))
  )
}

/** Returns the exports of `module` without a docstring. The docstring of a namespace is the header of its module. */
const undocumentedIn = (module: ts.SourceFile, name: string): ReadonlyArray<string> => {
  const symbol = checker.getSymbolAtLocation(module)
  assert(symbol !== undefined, `${name} has exports`)
  return [
    ...module.text.startsWith("/**") ? [] : [name],
    ...checker.getExportsOfModule(symbol).flatMap((entry) => {
      const target = entry.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(entry) : entry
      const path = `${name}.${entry.name}`
      const namespace = target.declarations?.find(ts.isSourceFile)
      if (namespace !== undefined) return undocumentedIn(namespace, path)
      return [
        ...isDocumented(target) ? [] : [path],
        ...membersOf(target).filter((member) => !isDocumented(member)).map((member) => `${path}.${member.name}`)
      ]
    })
  ]
}

describe("the public entries", () => {
  it.each(entries)("%s: every export and every member has a docstring", (file) => {
    const module = program.getSourceFile(file)
    assert(module !== undefined, file)
    assert.deepStrictEqual(undocumentedIn(module, file.slice(source.length)), [])
  })
})
