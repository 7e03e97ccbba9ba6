#!/usr/bin/env bash
# First-pass decoding of a data folder to lattices lat.1.gz, lat.2.gz ...
# Usage: steps/decode.sh [options] GRAPH DATA DIR
# With kaldi DIR lies in the model's folder, as Kaldi wants it. A decoding that was stopped goes on where it was (mdi),
# unless the graph or the speech has changed since.
set -euo pipefail
# shellcheck source=utils/script_common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../utils/script_common.sh"
# shellcheck source=utils/kaldi.sh
. "$mdi_root/utils/kaldi.sh"

backend=mdi  # mdi, kaldi, or vosk: GRAPH is a Vosk model's folder, the lattices are of the best word sequences
nj=1  # jobs, each of which writes one lat.N.gz
beam=12  # search beam
lattice_beam=6  # beam of the lattices
acwt=0.1  # acoustic scale of the search
n_best=100  # vosk: so many sequences
allow_pipes=false  # run the commands that wav.scp has for recordings, in a shell: for data that you trust
cmd=run.pl  # kaldi, mdi: run.pl, queue.pl, slurm.pl with options
decode_script=steps/decode.sh  # kaldi: in the recipe, such as steps/nnet3/decode.sh
decode_opts=""  # kaldi: further options of that script
egs_dir=${egs_dir:-}  # kaldi: the recipe (KALDI_ROOT/egs/wsj/s5)
parse_options "$@"
need_arguments 3
graph=$(absolute "${arguments[0]}") data=$(absolute "${arguments[1]}") folder=$(absolute "${arguments[2]}")
[[ $backend == vosk ]] || need_files "$graph/HCLG.fst" "$graph/words.txt"
log_to "$folder/log/decode.log"
if [[ $backend == kaldi && $allow_pipes == false ]] && grep -lE '\|[[:space:]]*(\[[^]]*\])?[[:space:]]*$' "$data"/*.scp; then
  fail "$data: commands in place of files, in the tables above; expected files only, as --allow-pipes is false (Kaldi's programs run them)"
fi

case $backend in
  mdi)
    need_files "$data/wav.scp"
    need_mdi
    began=$folder/decode.json
    if [[ -e $began && ($graph/HCLG.fst -nt $began || $data/wav.scp -nt $began) ]]; then
      rm -rf -- "$folder"/lat.* "$folder"/.lat.* "$folder"/num_jobs "$folder"/scoring_kaldi "$folder"/wer_* "$began"
    fi
    options=(--nj "$nj" --beam "$beam" --lattice-beam "$lattice_beam" --acwt "$acwt" --allow-pipes "$allow_pipes")
    if [[ $cmd != run.pl ]]; then
      run_jobs "JOB=1:$nj" "$folder/log/decode.JOB.log" \
        "$(command -v mdi)" decode --job JOB "${options[@]}" "$graph" "$data" "$folder" \
        || fail "a job failed; see $folder/log/decode.*.log"
    fi
    # what the jobs have done is done; run.pl is what mdi does itself
    mdi decode "${options[@]}" "$graph" "$data" "$folder"
    ;;
  vosk)
    need_files "$data/wav.scp"
    need_mdi
    began=$folder/decode.json
    if [[ -e $began && ($graph/mdi.json -nt $began || $data/wav.scp -nt $began) ]]; then
      rm -rf -- "$folder"/lat.* "$folder"/results.* "$folder"/num_jobs "$folder"/scoring_kaldi "$folder"/wer_* "$began"
    fi
    mdi vosk decode --nj "$nj" --n-best "$n_best" --lattice-beam "$lattice_beam" --allow-pipes "$allow_pipes" \
      "$graph" "$data" "$folder"
    ;;
  kaldi)
    need_kaldi lattice-copy
    need_files "$egs_dir/$decode_script" "$data/feats.scp"
    read -ra options <<< "$decode_opts"
    in_egs "$decode_script" --nj "$nj" --cmd "$cmd" --beam "$beam" --lattice-beam "$lattice_beam" --acwt "$acwt" \
      --skip-scoring true ${options[@]+"${options[@]}"} "$graph" "$data" "$folder" >&2 || {
      rm -f "$folder/num_jobs" # Kaldi writes it first; here it means that the folder is finished
      fail "$decode_script failed; see $mdi_log and the other logs in $folder/log"
    }
    ;;
  *) fail "--backend $backend; expected mdi, kaldi or vosk" 2 ;;
esac
check_lattices "$folder" "$(whole_number "$folder/num_jobs")"
