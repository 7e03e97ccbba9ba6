#!/usr/bin/env bash
# First-pass decoding of a data folder to lattices lat.1.gz, lat.2.gz ...
set -euo pipefail
# shellcheck source=utils/step.sh
. "$(dirname "${BASH_SOURCE[0]}")/../utils/step.sh"

usage() {
  cat << 'EOF'
Usage: steps/decode.sh [options] GRAPH DATA DIR
  --backend mdi|kaldi     (mdi)
  --nj N                  jobs (1)
  --beam, --lattice-beam  search beam (12), beam of the lattices (6)
  --acwt SCALE            acoustic scale of the search (0.1)
  --cmd CMD               kaldi: run.pl, queue.pl, slurm.pl with options (run.pl)
  --decode-script FILE    kaldi: in the recipe, such as steps/nnet3/decode.sh (steps/decode.sh)
  --decode-opts OPTS      kaldi: further options of that script
  --egs-dir DIR           kaldi: the recipe (KALDI_ROOT/egs/wsj/s5)
With kaldi DIR lies in the model's folder, as Kaldi wants it. A decoding that was stopped goes on where it was (mdi).
EOF
}

echo "$0 $*" >&2
backend=mdi nj=1 beam=12 lattice_beam=6 acwt=0.1 cmd=run.pl decode_script=steps/decode.sh decode_opts="" egs_dir=${egs_dir:-}
parse_options "backend nj beam lattice-beam acwt cmd decode-script decode-opts egs-dir" "$@"
if [[ ${#arguments[@]} -ne 3 ]]; then
  usage >&2
  exit 2
fi
graph=$(absolute "${arguments[0]}") data=$(absolute "${arguments[1]}") folder=$(absolute "${arguments[2]}")
need_files "$graph/HCLG.fst" "$graph/words.txt"

case $backend in
  mdi)
    need_files "$data/wav.scp"
    need_mdi
    mdi decode --nj "$nj" --beam "$beam" --lattice-beam "$lattice_beam" --acwt "$acwt" "$graph" "$data" "$folder"
    ;;
  kaldi)
    need_kaldi lattice-copy
    need_files "$egs_dir/$decode_script" "$data/feats.scp"
    read -ra options <<< "$decode_opts"
    in_egs "$decode_script" --nj "$nj" --cmd "$cmd" --beam "$beam" --lattice-beam "$lattice_beam" --acwt "$acwt" \
      --skip-scoring true "${options[@]}" "$graph" "$data" "$folder" >&2 || {
      rm -f "$folder/num_jobs" # Kaldi writes it first; here it means that the folder is finished
      fail "$decode_script failed; see $folder/log"
    }
    ;;
  *) fail "--backend $backend; expected mdi or kaldi" 2 ;;
esac
check_lattices "$folder" "$(cat "$folder/num_jobs")"
