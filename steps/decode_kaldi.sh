#!/usr/bin/env bash
# First-pass decoding with a Kaldi recipe's own script, to lattices lat.1.gz, lat.2.gz ...
# Usage: steps/decode_kaldi.sh [options] GRAPH DATA DIR
# DIR lies in the acoustic model's directory, as Kaldi wants it.
set -euo pipefail
# shellcheck source=utils/script_common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../utils/script_common.sh"
# shellcheck source=utils/kaldi.sh
. "$mdi_root/utils/kaldi.sh"

nj=1  # jobs, each of which writes one lat.N.gz
beam=12  # search beam
lattice_beam=6  # beam of the lattices
acwt=0.1  # acoustic scale of the search
allow_pipes=false  # run the commands that tables have for recordings, in a shell: for data that you trust
cmd=run.pl  # run.pl, queue.pl, slurm.pl with options
decode_script=steps/decode.sh  # in the recipe, such as steps/nnet3/decode.sh
decode_opts=""  # further options of that script
egs_dir=${egs_dir:-}  # the recipe (KALDI_ROOT/egs/wsj/s5)
parse_options "$@"
need_arguments 3
graph=$(absolute "${arguments[0]}") data=$(absolute "${arguments[1]}") folder=$(absolute "${arguments[2]}")
if [[ -e $graph/HCLr.fst ]]; then need_files "$graph/Gr.fst"; else need_files "$graph/HCLG.fst"; fi
need_files "$graph/words.txt"
log_to "$folder/log/decode.log"
# splitN/, too: Kaldi's scripts use again what is there
if [[ $allow_pipes == false ]] && LC_ALL=C grep -rlaE --include='*.scp' '\|[[:space:]]*(\[[^]]*\])?[[:space:]]*$' "$data"; then
  fail "$data: commands in place of files, in the tables above; expected files only, as --allow-pipes is false \
(Kaldi's programs run them)"
fi
need_kaldi lattice-copy
need_files "$egs_dir/$decode_script" "$data/feats.scp"
read -ra options <<< "$decode_opts"
in_egs "$decode_script" --nj "$nj" --cmd "$cmd" --beam "$beam" --lattice-beam "$lattice_beam" --acwt "$acwt" \
  --skip-scoring true ${options[@]+"${options[@]}"} "$graph" "$data" "$folder" >&2 || {
  rm -f "$folder/num_jobs" # Kaldi writes it first; here it means that the directory is finished
  fail "$decode_script failed; see $mdi_log and the other logs in $folder/log"
}
check_lattices "$folder" "$(whole_number "$folder/num_jobs")"
