"""What of git does nothing but git's own work: commands, and their options, as they are written in full.

`-m=` is a letter that takes the rest of its word, `-#` stands for a number, `<` behind an option for a file that is
read. What is not here asks: above all what runs a program that the line names, and what writes a file elsewhere.
"""

from collections.abc import Mapping

from agentcore.permissions.words import names

_DIFF = """-p -u -s -U= -z -B= -M= -D -l= -S= -G= -R -a -b -w -W -c -m -t -r --patch --no-patch --unified --raw
    --patch-with-raw --patch-with-stat --minimal --patience --histogram --anchored --diff-algorithm --stat --stat-width
    --compact-summary --numstat --shortstat --dirstat --summary --name-only --name-status --submodule --color --no-color
    --color-moved --no-color-moved --word-diff --word-diff-regex --color-words --no-renames --check --full-index
    --binary --abbrev --find-renames --find-copies --find-copies-harder --break-rewrites --diff-filter --pickaxe-all
    --pickaxe-regex --relative --no-relative --text --ignore-cr-at-eol --ignore-space-at-eol --ignore-space-change
    --ignore-all-space --ignore-blank-lines --ignore-matching-lines --inter-hunk-context --function-context --exit-code
    --quiet --no-ext-diff --no-textconv --ignore-submodules --src-prefix --dst-prefix --no-prefix --default-prefix
    --cached --staged --merge-base --cc --root --full-diff --combined-all-paths --diff-merges --no-diff-merges
    --remerge-diff --indent-heuristic --no-indent-heuristic"""
_LOG = f"""{_DIFF} -# -n= -i -E -F -P -L= -g -q --oneline --graph --no-graph --decorate --no-decorate --decorate-refs
    --all --branches --tags --remotes --glob --exclude --merges --no-merges --reverse --follow --max-count --skip
    --since --until --after --before --author --committer --grep --all-match --invert-grep --regexp-ignore-case
    --extended-regexp --fixed-strings --perl-regexp --format --pretty --abbrev-commit --no-abbrev-commit --date
    --date-order --topo-order --author-date-order --first-parent --notes --no-notes --left-right --left-only
    --right-only --cherry-pick --cherry-mark --cherry --boundary --simplify-by-decoration --source --ancestry-path
    --relative-date --parents --children --log-size --mailmap --no-mailmap --use-mailmap --full-history --dense --sparse
    --simplify-merges --walk-reflogs --not --expand-tabs --no-expand-tabs --encoding --min-parents --max-parents
    --count --objects --objects-edge --timestamp --no-walk --do-walk --show-pulls"""
_NET = "-4 -6 -q -v --quiet --verbose --progress --no-progress --ipv4 --ipv6"
_MERGE = """-m= -n -e -q -v -S= -X= --commit --no-commit --edit --no-edit --ff --no-ff --ff-only --squash --no-squash
    --signoff --no-signoff --stat --no-stat --log --no-log --verify --no-verify --allow-unrelated-histories --autostash
    --no-autostash --strategy-option --message --progress --no-progress --quiet --verbose --rerere-autoupdate"""
_FETCH = f"""{_NET} -a -f -k -p -P -t -j= --append --all --depth --deepen --shallow-since --shallow-exclude --unshallow
    --update-shallow --force --keep --prune --prune-tags --no-tags --tags --jobs --dry-run --atomic --set-upstream
    --recurse-submodules --no-recurse-submodules --multiple --refmap --filter --no-auto-maintenance --no-auto-gc
    --no-prune --no-write-fetch-head"""
_PICK = """-e -n -m= -s -S= -X= -r --edit --no-edit --no-commit --mainline --signoff --ff --allow-empty --empty
    --allow-empty-message --keep-redundant-commits --continue --skip --abort --quit --strategy-option --gpg-sign
    --no-gpg-sign --rerere-autoupdate --reference"""
_LISTED = """--sort --format --contains --no-contains --merged --no-merged --points-at --column --no-column --color
    --no-color --ignore-case --count"""

COMMANDS: Mapping[str, str] = {
    "add": """-n -v -f -i -p -u -A -N --dry-run --verbose --force --interactive --patch --update --all --no-all
        --intent-to-add --refresh --ignore-errors --ignore-missing --renormalize --chmod --sparse --ignore-removal""",
    "annotate": "-L= -l -t -e -w -M= -C= -b -f -n -p --date --root --porcelain --since",
    "archive": "-v -l -# --format --prefix --list --verbose --worktree-attributes --add-virtual-file --mtime",
    "bisect": "--term-old --term-new --term-good --term-bad --no-checkout --first-parent",
    "blame": """-L= -l -t -s -e -w -M= -C= -p -b -f -n -c --porcelain --line-porcelain --incremental --date --root
        --show-stats --show-name --show-number --show-email --score-debug --reverse --first-parent --since --abbrev
        --ignore-rev --color-lines --color-by-age --progress --no-progress""",
    "branch": f"""{_LISTED} -a -r -v -l -d -D -m -M -c -C -f -q -i -t -u= --all --remotes --verbose --list --delete
        --move --copy --force --show-current --set-upstream-to --unset-upstream --track --no-track --abbrev --no-abbrev
        --quiet --create-reflog""",
    "bundle": "-q --quiet",
    "cat-file": "-t -s -e -p --batch --batch-check --batch-all-objects --buffer --unordered --follow-symlinks",
    "check-attr": "-a -z --all --cached --source",
    "check-ignore": "-q -v -z -n --quiet --verbose --non-matching --no-index",
    "checkout": """-b= -B= -f -q -m -t -p -d -l --detach --force --quiet --track --no-track --guess --no-guess --ours
        --theirs --patch --merge --orphan --progress --no-progress --overlay --no-overlay --conflict
        --ignore-other-worktrees --recurse-submodules --no-recurse-submodules""",
    "cherry": "-v --abbrev",
    "cherry-pick": f"{_PICK} -x",
    "clean": "-d -f -n -q -x -X -i -e= --force --dry-run --quiet --exclude --interactive",
    "clone": f"""{_NET} -b= -o= -j= -n -l -s --branch --depth --single-branch --no-single-branch --origin --recursive
        --recurse-submodules --shallow-submodules --jobs --no-checkout --bare --mirror --tags --no-tags --filter
        --sparse --local --no-local --no-hardlinks --shared --shallow-since --shallow-exclude
    --also-filter-submodules""",
    "commit": """-a -m= -p -s -n -v -q -e -i -o -C= -c= -u= -S= -F< --all --message --patch --signoff
        --no-signoff --no-verify --verify --verbose --quiet --amend --no-edit --edit --allow-empty --allow-empty-message
        --fixup --squash --reuse-message --reedit-message --reset-author --author --date --dry-run --short --branch
        --porcelain --long --untracked-files --status --no-status --gpg-sign --no-gpg-sign --trailer --cleanup --include
        --only --no-post-rewrite --interactive --file<""",
    "config": """-l -z --get --get-all --get-regexp --list --show-origin --show-scope --name-only --null --local
        --global --system --worktree --includes --no-includes --type --default""",
    "count-objects": "-v -H --verbose --human-readable",
    "describe": """--tags --always --dirty --broken --all --long --abbrev --match --exclude --contains --candidates
        --exact-match --first-parent --debug""",
    "diff": f"{_DIFF} -#",
    "diff-files": f"{_DIFF} -q -0 -1 -2 -3 --base --ours --theirs",
    "diff-index": f"{_DIFF} --cached",
    "diff-tree": f"{_DIFF} -v --stdin --pretty --format --no-commit-id --always",
    "fetch": _FETCH,
    "for-each-ref": f"{_LISTED} --omit-empty --exclude",
    "format-patch": f"{_DIFF} -# -n -N -k -v= --stdout --numbered --no-numbered --keep-subject --signoff --cover-letter"
    " --no-cover-letter --subject-prefix --start-number --zero-commit --base --reroll-count --rfc --thread --no-thread",
    "fsck": """-v --full --no-full --strict --unreachable --dangling --no-dangling --connectivity-only --root --tags
        --cache --no-reflogs --verbose --progress --no-progress --name-objects""",
    "gc": """-q --quiet --auto --aggressive --prune --no-prune --force --keep-largest-pack --no-detach --cruft
        --no-cruft""",
    "grep": """-# -i -v -w -x -n -l -L -c -h -H -E -F -G -P -e= -q -o -a -I -r -z -p -W -A= -B= -C= --count
        --ignore-case --invert-match --word-regexp --line-number --column --files-with-matches --files-without-match
        --name-only --only-matching --quiet --extended-regexp --basic-regexp --fixed-strings --perl-regexp --text
        --no-index --untracked --cached --exclude-standard --no-exclude-standard --recurse-submodules --and --or --not
        --all-match --heading --break --max-depth --threads --color --no-color --show-function --function-context
        --context --after-context --before-context --null --full-name --max-count""",
    "init": "-q -b= --quiet --bare --initial-branch --object-format --shared",
    "log": _LOG,
    "ls-files": """-c -d -m -o -i -s -u -k -z -t -v -f -x= --cached --deleted --modified --others --ignored --stage
        --unmerged --killed --exclude --exclude-standard --error-unmatch --full-name --recurse-submodules --abbrev
        --format --directory --no-empty-directory --deduplicate --eol --sparse --debug""",
    "ls-remote": "-h -t -q -b --heads --branches --tags --refs --quiet --exit-code --get-url --sort --symref",
    "ls-tree": """-d -r -t -l -z --name-only --name-status --long --full-name --full-tree --abbrev --object-only
        --format""",
    "merge": f"{_MERGE} -F< --abort --quit --continue --file< --no-verify-signatures",
    "merge-base": "-a --all --octopus --independent --is-ancestor --fork-point",
    "merge-tree": "-z --write-tree --name-only --messages --no-messages --allow-unrelated-histories --merge-base",
    "mv": "-f -k -n -v --force --dry-run --verbose --sparse",
    "name-rev": "--tags --refs --exclude --name-only --always --no-undefined --all",
    "notes": "-m= -f -C= --message --force --ignore-missing --allow-empty --ref",
    "pack-refs": "--all --no-prune --prune",
    "prune": "-n -v --dry-run --verbose --progress --expire",
    "pull": f"{_FETCH} {_MERGE} -r --rebase --no-rebase --no-verify-signatures",
    "push": f"""{_NET} -u -f -d -n -o= --set-upstream --force --force-with-lease --force-if-includes --tags
        --follow-tags --no-follow-tags --all --branches --delete --dry-run --porcelain --no-verify --verify --atomic
        --no-atomic --prune --mirror --push-option --signed --no-signed --thin --no-thin --recurse-submodules
        --no-recurse-submodules""",
    "range-diff": f"{_DIFF} --creation-factor --left-only --right-only --no-dual-color",
    "rebase": """-i -f -k -n -q -v -r -m -X= -C= -S= --onto --continue --abort --skip --quit --interactive --root
        --autosquash --no-autosquash --autostash --no-autostash --force-rebase --no-ff --ff --keep-empty
        --no-keep-empty --rebase-merges --no-rebase-merges --fork-point --no-fork-point --quiet --verbose --stat
        --no-stat --no-verify --verify --keep-base --update-refs --no-update-refs --edit-todo --show-current-patch
        --strategy-option --committer-date-is-author-date --reset-author-date --ignore-whitespace --signoff --empty
        --reapply-cherry-picks --no-reapply-cherry-picks --gpg-sign --no-gpg-sign --merge --apply --whitespace""",
    "reflog": f"{_LOG} --expire --expire-unreachable --rewrite --updateref --stale-fix --dry-run --verbose",
    "remote": "-v -n -f -t= -m= -d -a --verbose --tags --no-tags --push --add --delete --all --auto --mirror",
    "repack": "-a -A -d -f -F -l -q -n --keep-unreachable --cruft",
    "reset": """-q -p -N --soft --mixed --hard --merge --keep --quiet --no-quiet --patch --intent-to-add --refresh
        --no-refresh""",
    "restore": """-s= -p -W -S -q -m --source --patch --worktree --staged --quiet --progress --no-progress --ours
        --theirs --merge --conflict --ignore-unmerged --overlay --no-overlay""",
    "rev-list": _LOG,
    "rev-parse": """-q --abbrev-ref --short --verify --quiet --show-toplevel --git-dir --absolute-git-dir
        --git-common-dir --is-inside-work-tree --is-inside-git-dir --is-bare-repository --is-shallow-repository
        --show-cdup --show-prefix --symbolic --symbolic-full-name --all --branches --tags --remotes --git-path
        --path-format --revs-only --no-revs --flags --no-flags --default --show-object-format --since --until
        --show-superproject-working-tree --local-env-vars --disambiguate""",
    "revert": _PICK,
    "rm": "-f -n -r -q --force --dry-run --cached --ignore-unmatch --quiet --sparse",
    "shortlog": f"{_LOG} -s -n -e -w= --summary --numbered --email --group",
    "show": _LOG,
    "show-branch": "-a -r -g= --all --remotes --list --current --topo-order --date-order --sha1-name --more --reflog",
    "show-ref": "-d -s -q --heads --branches --tags --verify --dereference --hash --abbrev --quiet --head --exists",
    "sparse-checkout": "--cone --no-cone --sparse-index --no-sparse-index --skip-checks",
    "stash": f"""{_LOG} -k -S --include-untracked --only-untracked --keep-index --no-keep-index --message --index
        --staged""",
    "status": """-s -b -u= -z -v --short --branch --porcelain --long --show-stash --untracked-files --ignored
        --ignore-submodules --column --no-column --ahead-behind --no-ahead-behind --renames --no-renames --find-renames
        --verbose --no-short --no-branch""",
    "stripspace": "-s -c --strip-comments --comment-lines",
    "submodule": """-f -q -j= -N --init --recursive --remote --force --quiet --cached --depth --jobs --merge --rebase
        --checkout --recommend-shallow --no-recommend-shallow --progress --no-fetch --single-branch --filter --all""",
    "switch": """-c= -C= -d -f -q -m -t --create --force-create --detach --discard-changes --force --merge --track
        --no-track --guess --no-guess --orphan --quiet --progress --no-progress --ignore-other-worktrees
        --recurse-submodules --no-recurse-submodules --conflict""",
    "symbolic-ref": "-q -d -m= --short --delete --quiet --recurse --no-recurse",
    "tag": f"{_LISTED} -a -s -u= -f -d -l -n= -m= -F< --annotate --sign --no-sign --force --delete --list --message"
    " --cleanup --create-reflog --file<",
    "update-index": """-q --refresh --really-refresh --chmod --assume-unchanged --no-assume-unchanged --skip-worktree
        --no-skip-worktree --add --remove --force-remove""",
    "update-ref": "-d -m= --no-deref --create-reflog",
    "version": "--build-options",
    "whatchanged": _LOG,
    "worktree": "-f -v -z --force --porcelain --expire --dry-run -n --verbose --reason",
}
ACTIONS: Mapping[str, frozenset[str]] = {
    "bisect": names("start good bad old new skip reset log terms next"),
    "bundle": names("verify list-heads"),
    "notes": names("list show add append copy remove prune get-ref merge"),
    "reflog": names("show expire delete exists list"),
    "remote": names("add rename remove rm set-head set-branches get-url set-url show prune update"),
    "sparse-checkout": names("list init set add reapply disable check-rules"),
    "stash": names("push pop apply list show drop branch clear create store save"),
    "submodule": names("status init update sync summary deinit absorbgitdirs set-branch"),
    "worktree": names("list lock unlock prune remove"),
}
"""Where the first word behind a command says what it does: those that are safe."""
GLOBAL = names(
    """--no-pager -P --literal-pathspecs --glob-pathspecs --noglob-pathspecs --icase-pathspecs --no-optional-locks
    --no-replace-objects --no-lazy-fetch --no-advice --version -v --html-path --man-path --info-path"""
)
"""Options of git itself that change nothing of what a command does."""
