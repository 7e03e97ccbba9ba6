#!/usr/bin/env bash
# A Kaldi recipe whose acoustic model is a Vosk model's, so that Kaldi's own programs decode with it.
# Usage: utils/vosk_recipe.sh [options] DATA EGS
# DATA is a directory that stage 0 of run.sh has filled with recorded speech and its recogniser, such as data/prompts.
# EGS, whose name must be s5, becomes the recipe: features and i-vectors of the test sets, the lang directory, the acoustic
# model with its graph, and mdi.conf, with which
#   ./run.sh --corpus NAME --conf EGS/mdi.conf --egs-dir EGS --backend kaldi --cmd run.pl
# decodes, rescores and scores. Nothing is built: KALDI_ROOT must name a built Kaldi. Dither is off, and every utterance
# is a speaker of its own, as it is in mdi vosk decode.
set -euo pipefail
# shellcheck source=utils/script_common.sh
. "$(dirname "${BASH_SOURCE[0]}")/script_common.sh"
# shellcheck source=utils/kaldi.sh
. "$mdi_root/utils/kaldi.sh"

nj=1  # jobs of features and i-vectors
sets="dev eval"  # test sets of DATA/speech
utterances=0  # the first so many of each (0: all)
cmd=run.pl  # run.pl, queue.pl, slurm.pl with options
parse_options "$@"
need_arguments 2
data=$(absolute "${arguments[0]}") egs=$(absolute "${arguments[1]}") from=${KALDI_ROOT:-}/egs/wsj/s5
[[ -n ${KALDI_ROOT:-} && -d $from/steps ]] || fail "no steps/ in '$from'; set KALDI_ROOT to a built Kaldi"
[[ $(basename "$egs") == s5 ]] || fail "$egs is not called s5, as recipes of Kaldi are"
model=$data/vosk-model
need_files "$data/train.txt.gz" "$data/default.arpa.gz" "$model/am/final.mdl" "$model/graph/HCLr.fst" \
  "$model/graph/Gr.fst" "$model/conf/mfcc.conf" "$model/ivector/final.ie"
need_mdi vosk
egs_dir=$from
need_kaldi compute-mfcc-feats copy-feats feat-to-dim copy-matrix apply-cmvn ivector-extract-online2 \
  nnet3-latgen-faster-lookahead lattice-scale

mkdir -p "$egs"/{conf,local,data/{train,lang},exp/{chain/graph,extractor}}
egs_dir=$egs
ln -sfn "$from/steps" "$egs/steps"
ln -sfn "$from/utils" "$egs/utils"
{
  echo "export KALDI_ROOT='$KALDI_ROOT'"
  # shellcheck disable=SC2016  # for the shell that reads it
  echo 'export PATH=$PWD/utils:$(printf "%s:" "$KALDI_ROOT"/src/*bin)$KALDI_ROOT/tools/openfst/bin:$PATH LC_ALL=C'
} > "$egs/path.sh"

# what the model's directory has, under the names that Kaldi's scripts look for
ln -sfn "$model/am/final.mdl" "$egs/exp/chain/final.mdl"
for file in HCLr.fst disambig_tid.int phones; do ln -sfn "$model/graph/$file" "$egs/exp/chain/graph/$file"; done
for file in final.ie final.dubm final.mat global_cmvn.stats online_cmvn.conf; do
  ln -sfn "$model/ivector/$file" "$egs/exp/extractor/$file"
done
xargs < "$model/ivector/splice.conf" > "$egs/exp/extractor/splice_opts"
# setting NAME DEFAULT: of the model's decoder
setting() { sed -n "s/^--$1=//p" "$model/conf/model.conf" | tail -n 1 | grep . || echo "$2"; }
setting frame-subsampling-factor 3 > "$egs/exp/chain/frame_subsampling_factor"
echo "--norm-means=false --norm-vars=false" > "$egs/exp/chain/cmvn_opts"
{ grep -v '^--dither' "$model/conf/mfcc.conf" && echo "--dither=0"; } > "$egs/conf/mfcc.conf"

# The words as they are numbered in the graph. Kaldi's programs want <s> and </s> with numbers of their own, which one
# of them lacks in Vosk's tables.
python3 - "$model/graph/Gr.fst" > "$egs/data/lang/words.txt" << 'END'
import sys
from mdi.fst.symbols import read_symbols
ids = read_symbols(sys.argv[1]).ids
numbers = {ids[word]: word for word in ids}
for word in (word for word in ids if numbers[ids[word]] != word):
    numbers[max(numbers) + 1] = word
sys.stdout.reconfigure(encoding="utf-8")
print(*(f"{word} {i}" for i, word in sorted(numbers.items())), sep="\n")
END
ln -sfn "$egs/data/lang/words.txt" "$egs/exp/chain/graph/words.txt"
gzip -cd "$data/train.txt.gz" | awk '{printf "train-%06d %s\n", NR, $0}' > "$egs/data/train/text"
awk '{print $1, $1}' "$egs/data/train/text" > "$egs/data/train/utt2spk"

for set in $sets; do
  out=$egs/data/$set
  rm -rf "$out"
  mkdir -p "$out"
  for file in text wav.scp; do
    LC_ALL=C sort "$data/speech/$set/$file" | awk -v n="$utterances" 'n == 0 || NR <= n' > "$out/$file"
  done
  awk '{print $1, $1}' "$out/text" | tee "$out/utt2spk" > "$out/spk2utt"
  # not compressed: that would be another kind of noise
  in_egs steps/make_mfcc.sh --nj "$nj" --cmd "$cmd" --compress false --mfcc-config conf/mfcc.conf "$out" >&2
  in_egs steps/compute_cmvn_stats.sh --fake "$out" >&2
  in_egs steps/online/nnet2/extract_ivectors_online.sh --nj "$nj" --cmd "$cmd" --compress false --max-count 100 \
    "$out" exp/extractor "exp/ivectors_$set" >&2
done
cp "$egs/exp/ivectors_${sets%% *}/final.ie.id" "$egs/exp/chain/final.ie.id"

cat > "$egs/mdi.conf" << END
# A Vosk model as a recipe of Kaldi: utils/vosk_recipe.sh has made it.
# shellcheck shell=bash disable=SC2034
recipe=s5
train_data=data/train
set_data="$(for set in $sets; do printf '%s=data/%s ' "$set" "$set"; done)"
hires_data="$(for set in $sets; do printf '%s=data/%s ' "$set" "$set"; done)"
lang=data/lang
default_lm=$data/default.arpa.gz
background_lm=$data/default.arpa.gz
model_dir=exp/chain
lookahead=exp/chain/graph
decodes_large=true
decode_script=steps/nnet3/decode_lookahead.sh
decode_opts="--post-decode-acwt 10.0 --max-active $(setting max-active 7000) --min-active $(setting min-active 200) --skip-diagnostics true"
ivectors=exp/ivectors_SET
acwt=$(setting acoustic-scale 1.0)
beam=$(setting beam 13.0)
lattice_beam=6
min_lmwt=7
max_lmwt=20
END
echo "$egs: a recipe with the acoustic model of $(readlink -f "$model")"
