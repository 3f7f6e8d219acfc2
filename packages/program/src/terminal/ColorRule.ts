/** Whether output gets colours. The launcher of a program uses this too, so this file imports nothing. */

/**
 * Never with NO_COLOR (https://no-color.org), always with FORCE_COLOR, and otherwise on a terminal that is not dumb.
 * `FORCE_COLOR=0` and `false` mean no colours, as in other Node programs.
 */
export const hasColors = (
  { FORCE_COLOR = "", NO_COLOR = "", TERM = "" }: Readonly<Record<string, string | undefined>>,
  isTerminal: () => boolean
): boolean => {
  if (NO_COLOR !== "") return false
  const forced = FORCE_COLOR.toLowerCase()
  return forced === "" ? isTerminal() && TERM !== "dumb" : forced !== "0" && forced !== "false"
}
