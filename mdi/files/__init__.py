"""Files: reading them, outputs that appear whole or not at all, folders, and checks before any work is done."""

from mdi.files.folders import check_replaced as check_replaced
from mdi.files.folders import exchange_folder as exchange_folder
from mdi.files.folders import make_folder as make_folder
from mdi.files.folders import scratch_folder as scratch_folder
from mdi.files.reading import UTF16 as UTF16
from mdi.files.reading import check_regular as check_regular
from mdi.files.reading import check_sum as check_sum
from mdi.files.reading import first_bytes as first_bytes
from mdi.files.reading import not_utf8 as not_utf8
from mdi.files.reading import open_regular as open_regular
from mdi.files.reading import read_ahead as read_ahead
from mdi.files.reading import read_bytes as read_bytes
from mdi.files.reading import read_chunks as read_chunks
from mdi.files.reading import read_json as read_json
from mdi.files.reading import read_lines as read_lines
from mdi.files.reading import read_plain as read_plain
from mdi.files.writing import GZIP_LEVEL as GZIP_LEVEL
from mdi.files.writing import check_output as check_output
from mdi.files.writing import discard as discard
from mdi.files.writing import is_stream as is_stream
from mdi.files.writing import replacing as replacing
from mdi.files.writing import same_file as same_file
from mdi.files.writing import together as together
from mdi.files.writing import write_file as write_file
from mdi.files.writing import writing as writing
from mdi.files.writing import written as written
