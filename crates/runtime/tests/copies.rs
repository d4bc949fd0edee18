//! Copies in and out of random boxes of random tensors, against copying element by element.

use anymetal::{Buffer, Device, ElementFormat, PlaneType, Strides, Tensor, TensorDescriptor};

struct Random(u64);

impl Random {
    fn next(&mut self) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) as usize
    }

    /// In `low..=high`.
    fn range(&mut self, low: usize, high: usize) -> usize {
        low + self.next() % (high - low + 1)
    }
}

/// Every coordinate of a box, innermost first.
fn coordinates(dimensions: &[usize]) -> Vec<Vec<usize>> {
    let count = dimensions.iter().product();
    let split = |mut i: usize| {
        dimensions
            .iter()
            .map(|&n| {
                let c = i % n;
                i /= n;
                c
            })
            .collect()
    };
    (0..count).map(split).collect()
}

fn dot(a: &[usize], b: &[usize]) -> usize {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

struct Case {
    tensor: Tensor,
    buffer: Buffer,
    strides: Strides,
    offset: usize,
    format: ElementFormat,
}

fn case(device: &Device, random: &mut Random) -> Case {
    let formats = [
        ElementFormat::F32,
        ElementFormat::F16,
        ElementFormat::I64,
        ElementFormat::U8,
        ElementFormat::Fp8E4M3,
        ElementFormat::Fp4E2M1,
        ElementFormat::UInt2B,
    ];
    let format = formats[random.next() % formats.len()];
    let rank = random.range(if format.is_format_type() { 1 } else { 0 }, 5);
    let row = if format.is_format_type() { 32 } else { 1 };
    let dimensions: Vec<usize> = (0..rank)
        .map(|d| {
            if d == 0 {
                row * random.range(1, 3)
            } else {
                random.range(1, 4)
            }
        })
        .collect();
    let unit = if format.is_format_type() {
        1024 / format.bits()
    } else {
        1
    };
    let mut strides = vec![];
    let mut least = 1;
    for (d, &n) in dimensions.iter().enumerate() {
        let stride: usize = if d == 0 {
            1
        } else {
            usize::next_multiple_of(least, unit) + unit * random.range(0, 2)
        };
        strides.push(stride);
        least = stride * n;
    }
    let strides = Strides::new(&strides).unwrap();
    let descriptor = TensorDescriptor::new([1], format);
    let descriptor = TensorDescriptor {
        dimensions: dimensions.try_into().unwrap(),
        ..descriptor
    };
    let descriptor = descriptor.with_strides(strides);
    let (size, align) = device.tensor_size_and_align(&descriptor).unwrap();
    let offset = align * random.range(0, 3);
    let buffer = device.new_buffer(offset + size + random.range(0, 7)).unwrap();
    let tensor = buffer.new_tensor(&descriptor, offset).unwrap();
    Case {
        tensor,
        buffer,
        strides,
        offset,
        format,
    }
}

#[test]
fn boxes_are_copied_element_by_element() {
    let device = Device::cpu();
    let mut random = Random(0x1234_5678_9abc_def1);
    for round in 0..400 {
        let case = case(&device, &mut random);
        let Case {
            tensor,
            buffer,
            strides,
            offset,
            format,
        } = &case;
        let noise: Vec<u8> = (0..buffer.length()).map(|_| random.next() as u8).collect();
        buffer.write(0, &noise).unwrap();
        let multiple = format.elements_per_byte();
        let (mut origin, mut size, mut host_strides, mut least) = (vec![], vec![], vec![], 1);
        for (d, &n) in tensor.dimensions().iter().enumerate() {
            let m = if d == 0 { multiple } else { 1 };
            let start = random.range(0, n / m - 1) * m;
            let length = random.range(1, (n - start) / m) * m;
            let gap = if d == 0 { 0 } else { multiple * random.range(0, 2) };
            let stride: usize = if d == 0 { 1 } else { least + gap };
            origin.push(start);
            size.push(length);
            host_strides.push(stride);
            least = stride * length;
        }
        let host_elements = coordinates(&size)
            .iter()
            .map(|c| dot(c, &host_strides))
            .max()
            .unwrap_or(0)
            + 1;
        let mut host = vec![0u8; format.bytes_for(host_elements)];
        tensor
            .get_bytes(PlaneType::Data, &origin, &size, &mut host, Some(&host_strides))
            .unwrap();
        let place = |c: &[usize]| {
            let at: Vec<usize> = c.iter().zip(&origin).map(|(a, b)| a + b).collect();
            dot(&at, strides)
        };
        for c in coordinates(&size) {
            let wanted = format.load(&noise[*offset..], place(&c));
            let got = format.load(&host, dot(&c, &host_strides));
            assert_eq!(
                got, wanted,
                "round {round}: {tensor:?} at {c:?} of {size:?} from {origin:?}"
            );
        }
        // Back in, changed: the box changes and nothing else.
        let changed: Vec<u8> = host.iter().map(|b| !b).collect();
        tensor
            .replace_bytes(PlaneType::Data, &origin, &size, &changed, Some(&host_strides))
            .unwrap();
        let mut wanted = noise.clone();
        for c in coordinates(&size) {
            let code = format.load(&changed, dot(&c, &host_strides)).unwrap();
            assert!(format.store(&mut wanted[*offset..], place(&c), code));
        }
        assert_eq!(buffer.to_vec::<u8>().unwrap(), wanted, "round {round}: {tensor:?}");
    }
}
