/** Every public export has a docstring, and so has every member of a public interface, class or record. */
import { assert, describe, it } from "@effect/vitest"
import { join } from "node:path"
// TypeScript 7 has no compiler API.
import ts from "typescript-5"

const folder = join(import.meta.dirname, "..")
const source = join(folder, "src/")
const entries = ["index", "node", "promise", "testing"].map((entry) => join(source, `${entry}.ts`))
const { config } = ts.readConfigFile(join(folder, "tsconfig.build.json"), ts.sys.readFile)
const program = ts.createProgram(entries, ts.parseJsonConfigFileContent(config, ts.sys, folder).options)
const checker = program.getTypeChecker()

/** The type of a schema refers to the schema's docstring, so `{@inheritDoc}` alone documents nothing. */
const isDocumented = (symbol: ts.Symbol): boolean =>
  ts.displayPartsToString(symbol.getDocumentationComment(checker)).replace(/\{@inheritDoc[^}]*\}/, "").trim() !== ""

const isOwn = (node: ts.Declaration): boolean => node.getSourceFile().fileName.startsWith(source)

/** The members that this package declares. Tags, and members that override documented ones, need no docstring. */
const membersOf = (symbol: ts.Symbol): ReadonlyArray<ts.Symbol> => {
  const isType = symbol.flags & (ts.SymbolFlags.Interface | ts.SymbolFlags.Class)
  const statics = symbol.flags & ts.SymbolFlags.Class ? checker.getTypeOfSymbol(symbol).getProperties() : []
  return [...isType ? checker.getDeclaredTypeOfSymbol(symbol).getProperties() : [], ...statics].filter((member) =>
    member.name !== "_tag" && member.name !== "prototype" &&
    member.declarations?.some((node) => isOwn(node) && !(ts.getCombinedModifierFlags(node) & ts.ModifierFlags.Override))
  )
}

/** The names below `module` that lack a docstring. A namespace is a module whose header is its docstring. */
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
  it.each(entries)("%s: no export and no member of one lacks a docstring", (file) => {
    const module = program.getSourceFile(file)
    assert(module !== undefined, file)
    assert.deepStrictEqual(undocumentedIn(module, file.slice(source.length)), [])
  })
})
