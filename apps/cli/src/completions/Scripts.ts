/**
 * The completion scripts. Each passes the command up to the cursor to `payments completions candidates`, which prints one
 * candidate per line: a word, a tab and its description. A line `:files TEXT` asks for file names after the text, and
 * `:continues` for no space after the word. A script never evaluates what was typed.
 */

export const shells = ["bash", "zsh", "fish"] as const
export type Shell = typeof shells[number]

const bash = String.raw`# Completions of payments for bash. To load them now:  source <(payments completions bash)
# To load them in every new shell, add that line to ~/.bashrc.
_payments() {
  local typed="${"$"}{COMP_LINE:0:COMP_POINT}" line word head
  # bash ends the word before the cursor at = and :, so the text before them is removed from the candidates.
  word="${"$"}{typed##*[[:space:]]}"
  head="${"$"}{word%"$2"}"
  COMPREPLY=()
  while IFS= read -r line; do
    case "$line" in
      :continues) compopt -o nospace 2> /dev/null ;;
      :files*)
        compopt -o filenames 2> /dev/null
        while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "$2")
        ;;
      *) line="${"$"}{line%%$'\t'*}" && COMPREPLY+=("${"$"}{line#"$head"}") ;;
    esac
  done < <("$1" completions candidates -- "$typed" 2> /dev/null)
}
complete -F _payments payments
`

const zsh = String.raw`#compdef payments
# Completions of payments for zsh. To load them now:  source <(payments completions zsh)
# To load them in every new shell, write them into a folder of $fpath:  payments completions zsh > FOLDER/_payments
_payments() {
  local line prefix value hasFiles=0
  local -a candidates space
  while IFS= read -r line; do
    case "$line" in
      :continues) space=(-S '') ;;
      :files*) prefix="${"$"}{line#:files }" hasFiles=1 ;;
      *)
        value="${"$"}{line%%$'\t'*}"
        [[ "$line" == *$'\t'* ]] && candidates+=("${"$"}{value//:/\\:}:${"$"}{line#*$'\t'}") || candidates+=("${"$"}{value//:/\\:}")
        ;;
    esac
  done < <("${"$"}{words[1]}" completions candidates -- "${"$"}{(j: :)words[1,CURRENT]}" 2> /dev/null)
  if (( hasFiles )); then
    compset -P "$prefix"
    _files
  fi
  (( ${"$"}#candidates )) && _describe -V payments candidates "${"$"}{space[@]}"
}
if [[ "${"$"}{funcstack[1]}" == _payments ]]; then _payments "$@"; else compdef _payments payments; fi
`

const fish = String.raw`# Completions of payments for fish. To load them now:  payments completions fish | source
# To load them in every new shell:  payments completions fish > ~/.config/fish/completions/payments.fish
function __payments_candidates
    set -l typed (commandline --cut-at-cursor --current-process)
    set -l word (commandline --cut-at-cursor --current-token)
    set -l program (commandline --tokenize --current-process)[1]
    for line in ($program completions candidates -- "$typed" 2> /dev/null)
        switch $line
            case ':continues'
            case ':files*'
                set -l prefix (string replace -r '^:files ?' '' -- $line)
                set -l rest (string sub --start (math (string length -- "$prefix") + 1) -- "$word")
                for file in (__fish_complete_path "$rest")
                    echo $prefix$file
                end
            case '*'
                echo $line
        end
    end
end
complete --command payments --no-files --arguments '(__payments_candidates)'
`

export const scripts: { readonly [S in Shell]: string } = { bash, zsh, fish }
